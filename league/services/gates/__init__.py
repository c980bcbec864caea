"""Gates: sequential tests of two frozen players, from opening to verdict; their leases are in `matchmaking`."""
