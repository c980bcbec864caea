"""The optimiser, its schedules and the moving average of the weights."""
