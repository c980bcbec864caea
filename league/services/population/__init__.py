"""Learners, snapshots and external players, their roles, and the population cache; ratings are in `ratings`."""
