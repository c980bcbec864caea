"""Targets of an update: advantages (GAE), returns and their normalisation.

Start with `gae.py`.
"""
