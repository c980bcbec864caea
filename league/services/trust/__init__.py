"""Workers that are in doubt: statistics of their results, reviews and quarantine.

Registration is in `workers`.
"""
