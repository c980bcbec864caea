"""Reports of a run: metrics, loggers, the console, health rules and the doctor.

Start with `metrics.py`.
"""
