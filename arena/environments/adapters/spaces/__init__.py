"""Gymnasium spaces as flat observations and action heads."""
