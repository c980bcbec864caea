"""How a run of the `league` command ended."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """Exit code and both streams."""

    code: int
    out: str
    err: str

    @property
    def one_line_error(self) -> str:
        """The error, which must be a single line without a traceback."""
        assert self.code != 0
        assert self.err.startswith("league: ")
        assert self.err.count("\n") == 1
        return self.err


Run = Callable[..., Outcome]
