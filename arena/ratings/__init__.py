"""Rating systems: Glicko-2 periods and whole-history Bradley-Terry fits. Torch-free."""
