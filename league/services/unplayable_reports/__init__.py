"""Reports that a snapshot cannot be played, and those that proved false.

Taking a report in is in `matchmaking.unplayable`.
"""
