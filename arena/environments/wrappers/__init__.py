"""Environments around environments: matches of several rounds."""
