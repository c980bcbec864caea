"""`trainer bench`: the speed of rollouts and updates of a configuration."""
