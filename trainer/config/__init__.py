"""Settings of a run: their schema, their presets, and reading them from TOML files and the command line.

Start with `schema.py`.
"""
