"""Glicko-2 ratings of players and of their sides: computed from arrays, stored and read.

Closing a period is in `rating_periods`.
"""
