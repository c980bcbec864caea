"""Endpoints under `/api/v1`, one module per resource; health and metrics are in `league.api`."""
