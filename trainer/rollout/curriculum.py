"""Curriculum schedule: which lesson the environments play, by the number of finished matches."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from arena.environments.base import CurriculumEnvironment, Environment, supports
from arena.environments.mech.config.curriculum import Curriculum, CurriculumStage
from trainer.config.schema import CurriculumSettings
from trainer.errors import ConfigError
from trainer.opponents.assignment import MatchAssignment


class CurriculumSchedule:
    """Moves environments from their first lesson to the full game. It depends on the number of matches alone.

    Args:
        environments: Environments that share the lesson.
        curriculum: First and last lesson and the number of matches between them.

    Attributes:
        taught_at: Number of finished matches at the last call of `advance`.
    """

    def __init__(self, environments: Sequence[CurriculumEnvironment], curriculum: Curriculum) -> None:
        self._environments, self._curriculum = environments, curriculum
        self._started_before: dict[int, MatchAssignment] = {}
        self.advance(0, ())

    @classmethod
    def from_settings(
        cls, environments: Sequence[Environment], settings: CurriculumSettings
    ) -> "CurriculumSchedule | None":
        """Create the schedule of the settings; None if they have no curriculum.

        Raises:
            ConfigError: The environment has no lessons.
        """
        if not settings.matches:
            return None
        with_lessons = [environment for environment in environments if supports(environment, CurriculumEnvironment)]
        if not with_lessons:
            name = environments[0].spec.name
            raise ConfigError(f"curriculum.matches is {settings.matches}, but {name} has no lessons: set it to 0")
        full_game = with_lessons[0].lesson
        first = replace(full_game, team_share=settings.team_share, map_share=settings.map_share)
        return cls(with_lessons, Curriculum(first, full_game, settings.matches))

    def advance(self, matches: int, running: Iterable[MatchAssignment]) -> None:
        """Set the lesson that is due.

        Args:
            matches: Matches finished in this run.
            running: Running matches, which continue under the lesson that they started with.
        """
        lesson = self._curriculum.after(matches)
        self.taught_at = matches
        if lesson != self._lesson:
            for environment in self._environments:
                environment.teach(lesson)
            # Matches that began under another lesson end under it, and must not count as full games.
            self._started_before = {id(match): match for match in running}

    def is_full_game(self, match: MatchAssignment) -> bool:
        """Whether a match that just ended was a full game; results of other matches are not reported to the league."""
        started_before = self._started_before.pop(id(match), None) is not None
        return self._lesson == self._curriculum.last and not started_before

    def metrics(self) -> dict[str, float | None]:
        """Current lesson, by metric tag."""
        lesson = self._lesson
        return {"curriculum/team_share": lesson.team_share, "curriculum/map_share": lesson.map_share}

    @property
    def _lesson(self) -> CurriculumStage:
        lesson: CurriculumStage = self._environments[0].lesson
        return lesson
