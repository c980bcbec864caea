"""Several processes that train one learner under torchrun.

Start with `launch.py`. Rank 0 alone calls the league (`coordinator.py`); the others follow it (`follower.py`).
"""
