"""Quotas of uploads, and garbage collection of checkpoints that nothing names.

Their bytes are in `league.storage`.
"""
