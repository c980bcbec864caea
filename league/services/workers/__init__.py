"""Registration, heartbeats and commands of workers; quarantine is in `trust`."""
