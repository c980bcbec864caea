"""Rollout collection: stepping the environments, acting with the learner's network, and the buffer that is filled.

How an observation gets into the buffer: `collector.py` calls `vector_worker.py`, which steps the environment, lets
`actor.py` choose actions, and writes into `buffer.py`. Opponents are in `trainer.opponents`, learning in `trainer.ppo`.
"""
