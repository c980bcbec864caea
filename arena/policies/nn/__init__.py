"""Networks of the built-in policies: encoders, recurrent cores, action heads and their distributions.

Start with `actor_critic.py`. Several networks as one call are in `arena.policies.ensemble`.
"""
