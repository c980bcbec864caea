"""Periodic tasks of a server, and the process that runs them; the work itself is in `league.services`."""
