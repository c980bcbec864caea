"""Leases: opponents chosen by PFSP weights and roles, granted, explained and ended.

The weights are in `arena.matchmaking.distribution`.
"""
