"""Warp functions of combat: targeting, firing, projectiles, hits and damage."""
