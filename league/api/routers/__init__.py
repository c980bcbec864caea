"""Endpoints under `/api/v1`, one module for each resource. Health and metrics are in `league.api`."""
