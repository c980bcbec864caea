"""Trainers and evaluators on a Ray cluster.

Start with `driver.py`.
"""
