"""The match log: reads, filters, arrays of matches, and what pairs of players scored.

Writing results is in `results`.
"""
