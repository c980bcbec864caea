"""Validation and exactly-once storage of match results; reading the match log is in `matches`."""
