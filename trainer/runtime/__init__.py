"""A training run from its start to its end: the loop, the objects that it needs, the dry run and the benchmark.

Start with `train.py`.
"""
