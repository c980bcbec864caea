"""The run directory: saving and resuming a run, its settings and its provenance.

Start with `saver.py`.
"""
