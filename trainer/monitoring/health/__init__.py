"""Health rules: diagnoses of a run from its metrics, while it runs and afterwards.

Start with `rules.py`.
"""
