"""What a run reports: metrics, loggers, the console, health rules and the doctor's report.

Start with `metrics.py`.
"""
