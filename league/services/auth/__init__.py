"""Bearer tokens and the workers, learners and players that they own; scopes and secrets are in `league.auth`."""
