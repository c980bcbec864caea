"""Steps environments: the learner on one side of each, its own opponent on the other, for a rollout at a time."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

import torch

from arena.environments.protocol import Environment
from arena.policies import ActorCritic
from trainer.crew import Crew, Ended
from trainer.distributed import ALONE, Ranks, any_of
from trainer.hands import Hands
from trainer.leases import Assignment
from trainer.rollout import Rollout


@dataclass(frozen=True)
class Episode:
    """A match that was played to its end.

    Attributes:
        assignment: What was played, against whom.
        score: Home's score in [0, 1].
        reason: Why it ended.
        decisions: Its length.
        earned: Reward of an agent of the learner, on average; in self-play of one at home.
        components: What `earned` is made of, by name; empty where the environment does not say.
    """

    assignment: Assignment
    score: float
    reason: str
    decisions: int
    earned: float
    components: Mapping[str, float]

    @property
    def learner_score(self) -> float:
        """The learner's score in [0, 1]."""
        return 1.0 - self.score if self.assignment.away else self.score


@runtime_checkable
class Dealer(Protocol):
    """Where environments get their matches from."""

    def draw(self, row: int) -> Assignment:
        """The next match of an environment."""
        ...


class Collector:
    """Plays E environments with the learner's present weights.

    Every environment knows its current match and its next one. At its own match's end it takes up the next: its
    opponent changes, nobody else's. At an episode's end, which is that of a match or of a round of it, that row's
    memory is opened anew. Recurrent state crosses rollout borders inside an episode.

    Environments may come in several batches of equal kind, which are then stepped at the same time: by a thread each
    or, where others play them, by those, while this thread decides for the next batch. Whatever all share is done in
    the order of the batches, after every decision: what comes of a rollout does not hang on who was faster.

    Args:
        environments: Batches of matches, E in all; their numbers run on from batch to batch.
        network: The learner.
        dealer: Deals matches.
        on_episode: Called with every finished match.
        rng: Chance of the learner's and the opponents' actions.
        self_play: Numbers of the environments in which both sides are the learner's.
        device_cache_bytes: Most bytes of weights that stay on the device for opponents that nobody plays just now.
        ranks: With whom the learner learns, each on environments of its own.

    Attributes:
        crews: A batch each, with everybody who acts in it.
    """

    def __init__(
        self,
        environments: Sequence[Environment],
        network: ActorCritic,
        dealer: Dealer,
        on_episode: Callable[[Episode], None],
        rng: torch.Generator,
        *,
        self_play: Set[int],
        device_cache_bytes: int,
        ranks: Ranks = ALONE,
    ) -> None:
        self._dealer, self._on_episode, self._rng, self._ranks = dealer, on_episode, rng, ranks
        self._device = network.observation_mean.device
        self.crews: list[Crew] = []
        number, cache_bytes = 0, device_cache_bytes // len(environments)
        for environment in environments:
            crew = Crew(environment, network, first=number, self_play=self_play, device_cache_bytes=cache_bytes)
            self.crews.append(crew)
            number += environment.num_envs
        self._relayed = len(self.crews) > 1 and all(crew.awaited for crew in self.crews)
        self._hands = Hands(1 if self._relayed else len(self.crews))
        self._chances = [rng] if len(self.crews) == 1 else [torch.Generator() for _ in self.crews]
        self._dealt = [deque([dealer.draw(row)]) for row in range(number)]
        self._open_all()

    @property
    def rows(self) -> int:
        """R: learning agents."""
        return sum(crew.seats.rows for crew in self.crews)

    @property
    def playing(self) -> list[Assignment]:
        """The match of every environment."""
        return [matches[0] for matches in self._dealt]

    @property
    def pending(self) -> list[tuple[Assignment, ...]]:
        """For every environment the match that it plays and its next one; no next one where the dealer failed."""
        return [tuple(matches) for matches in self._dealt]

    @torch.inference_mode()
    def collect(self, rollout: Rollout, stopping: Callable[[], bool]) -> bool:
        """Fill a rollout; false if `stopping` said so first, on any rank, and the rollout is then of no use.

        Raises:
            TrainerError: What the environment showed does not fit its spec.
            ArenaError: It showed or paid NaN or infinity, or tried to end the program.
        """
        parts = self._parts(rollout)
        for crew in self.crews:
            crew.refresh()
        play = self._relay if self._relayed else self._side_by_side
        with self._hands:
            for t in range(len(rollout.reward)):
                opening = t % rollout.chunk == 0
                if self._agree_to_stop(stopping, opening=opening):
                    self._catch_up(parts, t)
                    return False
                if opening:
                    self._share_chance()
                play(parts, t)
            self._catch_up(parts, len(rollout.reward))
            self._each(partial(self._finish, parts))
        return True

    def _side_by_side(self, parts: Sequence[Rollout], t: int) -> None:
        """Play a decision of all crews at the same time."""
        self._each(partial(self._step, parts, t))
        for crew in self.crews:
            self._turn_over(crew)

    def _relay(self, parts: Sequence[Rollout], t: int) -> None:
        """Conclude the decision before for one crew after another, and decide for it again while the others are played.

        In all but time this is the same as deciding and concluding in turn: crews share nothing but what `_turn_over`
        asks for, and that in their order.
        """
        for number, crew in enumerate(self.crews):
            self._conclude(parts, t - 1, number)
            crew.decide(parts[number], t, self._chances[number])

    def _each(self, work: Callable[[int], None]) -> None:
        """Do something with the number of every crew: at the same time, unless one thread serves them all."""
        if not self._relayed:
            self._hands.each(work)
            return
        for number in range(len(self.crews)):
            work(number)

    def _catch_up(self, parts: Sequence[Rollout], t: int) -> None:
        """Conclude the decision before `t`, where it is under way."""
        if self._relayed:
            for number in range(len(self.crews)):
                self._conclude(parts, t - 1, number)

    def _conclude(self, parts: Sequence[Rollout], t: int, number: int) -> None:
        if t >= 0:
            self.crews[number].conclude(parts[number], t)
            self._turn_over(self.crews[number])

    def _agree_to_stop(self, stopping: Callable[[], bool], *, opening: bool) -> bool:
        """Ask before every decision. Ranks have to leave together, and talk of it before a chunk, since that costs."""
        if self._ranks.count == 1:
            return stopping()
        return opening and any_of(self._ranks, stopping(), self._device)

    def _step(self, parts: Sequence[Rollout], t: int, number: int) -> None:
        self.crews[number].step(parts[number], t, self._chances[number])

    def _finish(self, parts: Sequence[Rollout], number: int) -> None:
        self.crews[number].bootstrap(parts[number])
        self.crews[number].require_options(parts[number])

    def _parts(self, rollout: Rollout) -> list[Rollout]:
        """Every crew's rows of a rollout."""
        parts, first = [], 0
        for crew in self.crews:
            parts.append(rollout.rows(slice(first, first + crew.seats.rows)))
            first += crew.seats.rows
        return parts

    def _share_chance(self) -> None:
        """Give every crew chance of its own for a chunk; it all comes from one source, which a run's state keeps."""
        if len(self.crews) > 1:
            for chance in self._chances:
                chance.manual_seed(int(torch.randint(2**63 - 1, (), generator=self._rng)))

    def _open_all(self) -> None:
        for crew in self.crews:
            rows = range(crew.environment.num_envs)
            self._take_seats(crew, rows)
            crew.open([self._dealt[crew.first + row][0].seed for row in rows])
        for crew in self.crews:
            self._deal(crew, range(crew.environment.num_envs))

    def _turn_over(self, crew: Crew) -> None:
        rows = [ended.row for ended in crew.ended]
        if not rows:
            return
        for ended in crew.ended:
            matches = self._dealt[crew.first + ended.row]
            self._on_episode(_episode(crew, matches[0], ended))
            matches.popleft()
        self._take_seats(crew, rows)
        self._deal(crew, rows)

    def _take_seats(self, crew: Crew, rows: Sequence[int]) -> None:
        current = {row: self._dealt[crew.first + row][0] for row in rows}
        crew.seat(
            {row: each.away for row, each in current.items()}, {row: each.opponent for row, each in current.items()}
        )

    def _deal(self, crew: Crew, rows: Sequence[int]) -> None:
        """Give some environments their next match."""
        for row in rows:
            self._dealt[crew.first + row].append(self._dealer.draw(crew.first + row))
        crew.announce({row: self._dealt[crew.first + row][-1].seed for row in rows})


def _episode(crew: Crew, assignment: Assignment, ended: Ended) -> Episode:
    reason = crew.environment.spec.reasons[ended.reason]
    earned, components = crew.earnings.per_agent(ended.sums, away=assignment.away)
    return Episode(assignment, ended.score, reason, ended.decisions, earned, components)
