"""The audit log: its lines are written, read and streamed here.

What they record happens elsewhere.
"""
