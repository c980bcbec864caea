"""Recordings of matches: storage, access and retention."""
