"""Measurements of the product: `python -m benchmarks.NAME`, or `make bench` for all of them.

Helpers of the tests, such as a PostgreSQL server of their own, are importable here as they are in the tests.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
