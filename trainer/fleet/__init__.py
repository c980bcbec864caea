"""Trainers and evaluators of one league on the machines of a Ray cluster."""
