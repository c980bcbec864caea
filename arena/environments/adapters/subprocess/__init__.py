"""Batches of single-match games, stepped in this process or in subprocesses. Torch-free on import."""
