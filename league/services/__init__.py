"""What the league does, one module per noun.

Functions take a session and the settings, and `now` or `rng` where time or chance matters.
"""
