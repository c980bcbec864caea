"""Tokens and what each owns.

Scopes and secrets are in `league.auth`.
"""
