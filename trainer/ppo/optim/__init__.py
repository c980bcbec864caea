"""Optimiser, schedules and the moving average of weights."""
