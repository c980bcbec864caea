"""The HTTP API: routers by resource, middleware, and what endpoints share. The rules are in `league.services`.

Each endpoint opens one transaction, calls a service, and answers after the commit.
"""
