"""The audit log: recording, listing and streaming of events.

The recorded changes happen in other packages.
"""
