"""The league over HTTP: each endpoint opens one transaction, calls a service, and answers after the commit."""
