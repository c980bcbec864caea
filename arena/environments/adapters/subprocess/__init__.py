"""Games that play one match at a time, as a batch of matches. Importing this package loads no torch."""
