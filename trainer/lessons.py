"""Easier matches first: which lesson an environment plays after so many matches."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from arena.environments.mech.curriculum import Curriculum, Lesson
from arena.environments.protocol import Environment
from trainer.errors import ConfigError
from trainer.leases import Assignment
from trainer.settings import CurriculumSettings


@runtime_checkable
class TeachableEnvironment(Protocol):
    """An environment that can play less than its whole game.

    Attributes:
        lesson: What it plays now; the whole game until it is taught.
    """

    lesson: Lesson

    def teach(self, lesson: Lesson) -> None:
        """Play by a lesson; who takes part and where changes with each row's next match."""
        ...


class Course:
    """The way of environments from their first lesson to the whole game, by matches played and by nothing else.

    Args:
        environments: What is taught, all the same at a time.
        curriculum: Their lessons.

    Attributes:
        taught_at: Matches after which the lesson that is played by was taught.
    """

    def __init__(self, environments: Sequence[TeachableEnvironment], curriculum: Curriculum) -> None:
        self._environments, self._curriculum = environments, curriculum
        self._partial: dict[int, Assignment] = {}
        self.advance(0, ())

    @classmethod
    def of(cls, environments: Sequence[Environment], settings: CurriculumSettings) -> "Course | None":
        """The course that settings ask for; None where they ask for none.

        Raises:
            ConfigError: The environments cannot be taught.
        """
        if not settings.matches:
            return None
        pupils = [environment for environment in environments if isinstance(environment, TeachableEnvironment)]
        if not pupils:
            name = environments[0].spec.name
            raise ConfigError(f"curriculum.matches is {settings.matches}, but {name} has no lessons: set it to 0")
        whole = pupils[0].lesson
        first = replace(whole, team_share=settings.team_share, map_share=settings.map_share)
        return cls(pupils, Curriculum(first, whole, settings.matches))

    def advance(self, matches: int, playing: Iterable[Assignment]) -> None:
        """Teach what is due.

        Args:
            matches: Matches finished in this run.
            playing: What is being played; it was opened under the lesson so far, and goes on under it.
        """
        lesson = self._curriculum.after(matches)
        self.taught_at = matches
        if lesson != self._lesson:
            for environment in self._environments:
                environment.teach(lesson)
            self._partial = {id(each): each for each in playing}

    def whole(self, match: Assignment) -> bool:
        """Whether a match that has just ended was one of the whole game: others say nothing of ratings."""
        opened_before = self._partial.pop(id(match), None) is not None
        return self._lesson == self._curriculum.last and not opened_before

    def metrics(self) -> dict[str, float | None]:
        """What is played now, by tag."""
        lesson = self._lesson
        return {"curriculum/team_share": lesson.team_share, "curriculum/map_share": lesson.map_share}

    @property
    def _lesson(self) -> Lesson:
        return self._environments[0].lesson
