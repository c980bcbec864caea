"""Curriculum of easier matches: stages, and ramps from one to the next by the number of matches played."""

from dataclasses import dataclass

from arena.errors import InputError


@dataclass(frozen=True)
class CurriculumStage:
    """Difficulty of a match; the default is the whole game. Results of other stages must not enter ratings.

    Attributes:
        opponent_fire: Probability that a trigger of the opponent counts, in [0, 1].
        team_share: Share of each side's mechs that take part, in (0, 1]; at least one does.
        map_share: Share of the pool's maps that are played, the easiest first, in (0, 1]; at least one is.
        own_share: Alpha of the rewards: weight of an agent's own reward, in [0, 1]; the rest is the mean of its side.

    Raises:
        ArenaError: A share is out of its range.
    """

    opponent_fire: float = 1.0
    team_share: float = 1.0
    map_share: float = 1.0
    own_share: float = 0.7

    def __post_init__(self) -> None:
        for name in ("opponent_fire", "team_share", "map_share", "own_share"):
            value = getattr(self, name)
            if not 0.0 <= value <= 1.0:
                raise InputError(f"{name} of a stage is {value}: give a share from 0 to 1")
        for name in ("team_share", "map_share"):
            if getattr(self, name) == 0.0:
                raise InputError(f"{name} of a stage is 0: give more than 0")


@dataclass(frozen=True)
class Curriculum:
    """Interpolates from one stage to another, in equal steps over a number of matches.

    Raises:
        ArenaError: The number of matches is below 1.
    """

    first: CurriculumStage
    last: CurriculumStage
    matches: int

    def __post_init__(self) -> None:
        if self.matches < 1:
            raise InputError(f"a curriculum over {self.matches} matches: give at least 1")

    def after(self, matches: int) -> CurriculumStage:
        """Return the stage after a number of matches."""
        done = min(max(matches / self.matches, 0.0), 1.0)

        def between(name: str) -> float:
            start, end = getattr(self.first, name), getattr(self.last, name)
            return float(start + (end - start) * done)

        return CurriculumStage(
            between("opponent_fire"), between("team_share"), between("map_share"), between("own_share")
        )
