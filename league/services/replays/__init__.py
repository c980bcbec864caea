"""Recordings of matches: stored, read and dropped by age and number."""
