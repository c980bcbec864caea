"""Finished experiments: each folder has a README with the question, the method, the numbers and the conclusion."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))  # simulated workers, servers, games
