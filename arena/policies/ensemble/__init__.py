"""Ensembles of policies: one batched call in which every row of the observations belongs to its own policy.

Start with `ensemble.py`. The networks themselves are in `arena.policies.nn`.
"""
