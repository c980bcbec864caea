"""Environments: lookup, creation, limits, listing and deletion; the games themselves are in `arena`."""
