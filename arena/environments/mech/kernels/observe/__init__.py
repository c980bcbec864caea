"""Warp functions that write observations, block by block."""
