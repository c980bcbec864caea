"""Environments: lookup, creation, limits, listing and deletion.

The games themselves are in `arena`.
"""
