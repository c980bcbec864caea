"""Pictures of a mech match: terrain, mechs, effects and the head-up display."""
