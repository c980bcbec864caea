"""Learners, snapshots and external players, their roles and their cached population.

Ratings are in `ratings`, standings in `lifecycle`.
"""
