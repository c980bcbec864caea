"""Recorded state of mech matches: terrain, frames, events and their tables."""
