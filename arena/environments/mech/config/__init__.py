"""Configuration of the mech arena: constants, chassis, weapons, scenarios, rewards and curricula."""
