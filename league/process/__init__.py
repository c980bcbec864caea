"""Processes that supervise others: start, watch, restart and end them; knows nothing else of the league."""
