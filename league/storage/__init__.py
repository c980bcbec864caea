"""Checkpoint bytes, named by their SHA-256."""
