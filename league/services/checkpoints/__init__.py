"""Quotas of uploads and garbage collection of unused checkpoints; the bytes are in `league.storage`."""
