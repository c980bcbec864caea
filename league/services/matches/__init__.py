"""The match log: queries, arrays of matches, behaviour measures and pair records; `results` writes it."""
