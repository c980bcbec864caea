"""Quotas of uploads and garbage collection of unused checkpoints.

The bytes are in `league.storage`.
"""
