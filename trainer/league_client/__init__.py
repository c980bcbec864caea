"""Calls to the league server: leases, results, snapshots and heartbeats. Only `evaluation` has calls of its own.

Start with `session.py`, which has one method per call. `leases.py` requests opponent leases, `result_spool.py` stores
results on disk until the league has answered, and `snapshots.py` does the same for snapshots. While the league is
unreachable, `retrying_client.py` skips calls and `sync.py` delivers waiting results once it is back.
"""
