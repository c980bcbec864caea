"""OpenSpiel adapter: small games as lookup tables. Importing this package loads neither torch nor OpenSpiel."""
