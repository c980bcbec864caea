"""Comparisons that double and single precision may decide differently."""

import itertools

WIDTH = 5e-5
"""Sides of a comparison that are nearer than this are on an edge."""


class Edges:
    """Compares numbers, and remembers which comparisons were so close that the last bits decided.

    Attributes:
        met: What was compared, every time that it was close.
    """

    def __init__(self) -> None:
        self.met: list[str] = []

    def at_most(self, left: float, right: float, what: str) -> bool:
        """Whether left <= right."""
        self._note(left, right, what)
        return left <= right

    def below(self, left: float, right: float, what: str) -> bool:
        """Whether left < right."""
        self._note(left, right, what)
        return left < right

    def first(self, scored: list[tuple[float, int]], what: str) -> int:
        """The key with the lowest score; the lower key if scores are equal; -1 of nothing."""
        ranked = sorted(scored)
        if len(ranked) > 1:
            self._note(ranked[0][0], ranked[1][0], what)
        return ranked[0][1] if ranked else -1

    def ranked(self, scored: list[tuple[float, int]], what: str) -> list[int]:
        """Keys by rising score, equal ones by key."""
        order = sorted(scored)
        for (score, _), (following, _) in itertools.pairwise(order):
            self._note(score, following, what)
        return [key for _, key in order]

    def _note(self, left: float, right: float, what: str) -> None:
        if -WIDTH < left - right < WIDTH:
            self.met.append(what)
