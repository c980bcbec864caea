"""Rendering of recordings in a terminal and as video. Importing this package does not load torch."""
