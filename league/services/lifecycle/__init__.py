"""Transitions of players' standings and the champion alias; the automatic rules are in `promotion`."""
