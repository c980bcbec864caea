"""Maps of the mech arena: features, generation, path lengths and the pool of maps."""
