"""Records mech matches: frames of state and events."""
