"""Rating periods: closed, rebuilt from the match log, and computed again under another rule.

The rating itself is in `ratings`.
"""
