"""Bytes of checkpoints, named by their SHA-256, and of recordings."""
