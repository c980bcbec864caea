"""Leases: opponents drawn by PFSP and roles, granted, explained and settled; weights are in `arena.matchmaking`."""
