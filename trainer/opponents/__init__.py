"""Opponents of the learner: loading their checkpoints and acting for all environments in batches.

Start with `pool.py` for loading and `batch.py` for acting and recurrent state. Leases decide which opponent plays in
which environment (`trainer.league_client.leases`).
"""
