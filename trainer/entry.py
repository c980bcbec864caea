"""`trainer enter`: an external player's rating matches, played where its policy is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from arena.environments import EnvironmentSpec, make_baseline
from arena.external import ExternalPolicy, ExternalPolicyError
from arena.playing import FORFEIT, play_pairs
from arena.seeding import derive
from league import wire
from league.client import LeagueClient
from league.errors import StandingConflictError
from trainer.errors import EntryError
from trainer.evaluator import EvaluationWorker, RatingMembership, Table
from trainer.link import Link
from trainer.opponents import Opponent, OpponentPool

REHEARSED = "random"
"""Whom a policy plays before anything of it is told to the league."""


def rehearse(spec: EnvironmentSpec, policy: ExternalPolicy) -> None:
    """Play a match on either side against `random`, unrated: what is wrong with a policy mostly shows at once.

    Raises:
        ExternalPolicyError: It fails, or does what is not allowed.
    """
    other = make_baseline(spec.name, REHEARSED)
    rng = torch.Generator().manual_seed(derive(0, "rehearsal"))
    results = play_pairs(spec.name, [(policy, other), (other, policy)], [1, 1], rng)
    if any(result.reason == FORFEIT for result in results):
        raise ExternalPolicyError(
            f"{policy.name} does what is not allowed in a match against {REHEARSED}, and was not entered: mend it first"
        )


@dataclass(frozen=True)
class Entry:
    """Whom a policy plays as.

    Attributes:
        name: Of the player.
        form: How the policy is written, in a word.
        identity: By what it is known again; None where nothing says it.
    """

    name: str
    form: str
    identity: str | None


class EntryMembership(RatingMembership):
    """An entrant's side of the league's contract: an evaluator's, for one external player.

    Args:
        link: The league.
        spec: What is played.
        entry: Whom the worker plays as.
        version: Of this program.
        instance: What tells workers of one name apart.
        say: Tells a person as whom it plays.

    Attributes:
        player: The player, once the league knows it.
    """

    kind: ClassVar[wire.WorkerKind] = "entrant"

    def __init__(
        self,
        link: Link,
        spec: EnvironmentSpec,
        entry: Entry,
        *,
        version: str,
        instance: str | None,
        say: Callable[[str], None],
    ) -> None:
        super().__init__(link, [spec], name=f"entry-{entry.name}", version=version, instance=instance)
        self._spec, self._entry, self._say = spec, entry, say
        self.player: wire.Player | None = None

    def lease(self, environment: str, count: int, budget: int) -> list[wire.Lease]:
        """Ask for pairs of the player's; none where there are none, or the league is away.

        Raises:
            EntryError: The player is out of play.
        """
        if self.player is None:
            return []
        request = wire.RatingLeases(
            kind="rating",
            worker_id=self.worker_id,
            environment=environment,
            count=count,
            budget=budget,
            player_id=self.player.id,
        )
        try:
            answer = self._link.submit("leases", lambda client: client.lease(request), self._register)
        except StandingConflictError as error:
            raise EntryError(f"{self._entry.name} plays no more: {error}") from error
        if answer is None:
            return []
        self.next_poll_s = answer.next_poll_s
        return answer.items

    def _register(self, client: LeagueClient) -> wire.Worker:
        worker = super()._register(client)
        told = wire.ExternalCreate(
            name=self._entry.name,
            environment=self._spec.name,
            signature=self._spec.signature,
            identity=self._entry.identity,
            metadata={"form": self._entry.form},
        )
        known, self.player = self.player is not None, client.enter(told)
        if not known:
            one = self.player
            rated = f"rating {one.rating:.0f} ± {2 * one.deviation:.0f} after {one.games:,} games"
            self._say(f"{one.name} is player {one.id} of {one.environment}: {rated}; `league show {one.id}` has more")
        return worker


class EntryPool(OpponentPool):
    """Finds opponents as an evaluator does, and the external player itself at home.

    Args:
        own: The external player.
        rest: What an `OpponentPool` takes.
    """

    def __init__(self, own: Opponent, *rest: Any, **options: Any) -> None:  # noqa: ANN401  as its base has them
        super().__init__(*rest, **options)
        self._own = own

    def resolve(self, checkpoint: str, name: str) -> Opponent:
        """See `OpponentPool.resolve`."""
        return self._own if checkpoint == self._own.key else super().resolve(checkpoint, name)


class EntryWorker(EvaluationWorker):
    """Plays an external player's rating matches.

    What its policy does that is not allowed loses the match. Where the policy fails, the entry ends: of the matches
    that were under way nothing is reported and their leases are given back, and what was played before counts.
    """

    def _play(self, environment: str, tables: Sequence[Table]) -> None:
        try:
            super()._play(environment, tables)
        except ExternalPolicyError as error:
            self._membership.release([table.lease.lease_id for table in tables], [])
            raise EntryError(f"{error}. Its matches under way do not count; start it again to go on") from error
