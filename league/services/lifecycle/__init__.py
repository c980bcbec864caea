"""Standings of players and the champion alias: who may change them, and how.

The rule that changes them is in `promotion`.
"""
