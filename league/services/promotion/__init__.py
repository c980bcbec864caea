"""Rules of promotion, redundancy and behaviour profiles.

Transitions of standings are in `lifecycle`.
"""
