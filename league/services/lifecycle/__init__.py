"""Transitions of players' standings and the champion alias.

The automatic rules are in `promotion`.
"""
