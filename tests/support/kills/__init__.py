"""A league whose processes are killed all the time, and whether anything was lost by that.

See docs/concepts/trust.md.
"""
