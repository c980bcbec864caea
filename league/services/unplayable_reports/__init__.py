"""Reports that a snapshot is unplayable, and false reports.

Reports are received in `matchmaking.unplayable`.
"""
