"""Recordings of matches made visible: in a terminal, and as moving pictures. Importing this package loads no torch."""
