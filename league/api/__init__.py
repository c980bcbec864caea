"""The HTTP API: routers by resource, middleware and shared dependencies; the rules are in `league.services`.

Each endpoint opens one transaction, calls a service, and responds after the commit.
"""
