"""Calls of the HTTP API by resource, as mixins of `LeagueClient`."""
