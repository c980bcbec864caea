"""OpenSpiel's small games, unrolled into arrays. Importing this package loads neither torch nor OpenSpiel."""
