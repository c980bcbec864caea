"""What tests of policies from outside share."""

import sys
from pathlib import Path

from arena.agents import Timeouts

EXAMPLES = Path(__file__).parents[2] / "examples" / "external"
PATIENT = Timeouts(answer_s=600.0, start_s=600.0)


def script(folder: Path, name: str, text: str) -> str:
    """Write a program into a folder; how it is named as a policy that is a process."""
    (folder / name).write_text(text, encoding="utf-8")
    return f"process:{sys.executable} {folder / name}"
