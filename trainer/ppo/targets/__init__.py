"""What an update learns from: advantages, returns and their normalisation.

Start with `gae.py`.
"""
