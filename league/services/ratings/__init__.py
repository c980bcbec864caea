"""Glicko-2 ratings of players and of their sides: computation, storage and lookup; `rating_periods` closes periods."""
