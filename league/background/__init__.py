"""Periodic tasks of a server, and the process that runs them beside it.

What a task does is in `league.services`.
"""
