"""Workers: registered, seen by heartbeats, commanded.

Quarantine of workers is in `trust`.
"""
