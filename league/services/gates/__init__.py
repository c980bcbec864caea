"""Gates: sequential tests of two frozen players, from opening to verdict.

Which pairs are played is in `matchmaking`.
"""
