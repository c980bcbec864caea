"""Wrappers of environments: matches of several rounds."""
