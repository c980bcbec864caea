"""Environments: found by name, created, limited, listed and deleted.

Games themselves are in `arena`.
"""
