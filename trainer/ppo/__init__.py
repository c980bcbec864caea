"""Recurrent PPO: from a filled rollout buffer to updated weights.

Nothing here steps an environment or calls the league. Start with `ppo.py` (the update), then `learner.py` (network,
statistics and saved tensors around it).
"""
