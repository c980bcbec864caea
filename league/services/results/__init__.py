"""Results of matches: validated and stored exactly once.

Reading the log is in `matches`.
"""
