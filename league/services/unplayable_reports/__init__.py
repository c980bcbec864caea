"""Reports that a snapshot is unplayable, and false reports; `matchmaking.unplayable` receives them."""
