"""External player (`trainer enter`): plays the rating matches of a policy that stays on this machine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from arena.agents import ExternalPolicy, ExternalPolicyError
from arena.environments import EnvironmentSpec, make_baseline
from arena.play.runner import FORFEIT, play_pairs
from arena.seeding import derive
from league import wire
from league.client import LeagueClient
from league.errors import StandingConflictError
from trainer.errors import ExternalPlayerError
from trainer.evaluation.evaluator import EvaluationWorker, LoadedLease
from trainer.evaluation.session import EvaluatorSession
from trainer.league_client.retrying_client import RetryingClient
from trainer.opponents.pool import Opponent, OpponentPool

DRY_RUN_OPPONENT = "random"
"""Opponent of the matches that a policy plays before it is registered with the league."""


def dry_run_match(spec: EnvironmentSpec, policy: ExternalPolicy) -> None:
    """Play one unrated match on each side against `random`, to find most faults of a policy before it is entered.

    Raises:
        ExternalPolicyError: The policy failed or forfeited a match.
    """
    other = make_baseline(spec.name, DRY_RUN_OPPONENT)
    rng = torch.Generator().manual_seed(derive(0, "rehearsal"))
    results = play_pairs(spec.name, [(policy, other), (other, policy)], [1, 1], rng)
    if any(result.reason == FORFEIT for result in results):
        raise ExternalPolicyError(
            f"{policy.name} forfeited a match against {DRY_RUN_OPPONENT} and was not entered: fix it first"
        )


@dataclass(frozen=True)
class Entry:
    """The player that a policy is entered as.

    Attributes:
        name: Name of the player.
        form: Form of the policy, in a word.
        identity: Identifies the policy on a later start; None if it cannot be identified.
    """

    name: str
    form: str
    identity: str | None


class ExternalPlayerSession(EvaluatorSession):
    """Session of an external player: an evaluator session whose leases all include that player.

    Args:
        client: League client.
        spec: Environment of the player.
        entry: The player to register.
        version: Version of this program.
        instance: Distinguishes workers of player name.
        print_line: Prints the player's id and rating.

    Attributes:
        player: The player; None before the first registration.
    """

    def __init__(
        self,
        client: RetryingClient,
        spec: EnvironmentSpec,
        entry: Entry,
        *,
        version: str,
        instance: str | None,
        print_line: Callable[[str], None],
    ) -> None:
        super().__init__(client, [spec], name=f"entry-{entry.name}", version=version, instance=instance, kind="entrant")
        self._spec, self._entry, self._print_line = spec, entry, print_line
        self.player: wire.Player | None = None

    def _request_leases(self, request: wire.RatingLeases) -> wire.LeaseAnswer | None:
        """Request leases of the player.

        Raises:
            ExternalPlayerError: The player is retired or quarantined.
        """
        own = request.model_copy(update={"player_id": self.player.id if self.player else None})
        try:
            return self._submit("leases", lambda client: client.lease(own))
        except StandingConflictError as error:
            raise ExternalPlayerError(f"{self._entry.name} is no longer active: {error}") from error

    def _register_player(self, client: LeagueClient, worker: wire.Worker) -> None:
        request = wire.ExternalCreate(
            name=self._entry.name,
            environment=self._spec.name,
            signature=self._spec.signature,
            identity=self._entry.identity,
            metadata={"form": self._entry.form},
        )
        # Registered again after each reconnection, but printed once.
        known, self.player = self.player is not None, client.register_external(request)
        if not known:
            player = self.player
            self._print_line(
                f"{player.name} is player {player.id} of {player.environment}: rating {player.rating:.0f} "
                f"± {2 * player.deviation:.0f} after {player.games:,} games; see `league show {player.id}`"
            )


class ExternalPlayerPool(OpponentPool):
    """Opponent pool that also contains the external player itself.

    Args:
        own: The external player.
        rest: Arguments of `OpponentPool`.
    """

    def __init__(self, own: Opponent, *rest: Any, **options: Any) -> None:  # noqa: ANN401  as its base has them
        super().__init__(*rest, **options)
        self._own = own

    def resolve(self, checkpoint: str, name: str) -> Opponent:
        """See `OpponentPool.resolve`."""
        return self._own if checkpoint == self._own.key else super().resolve(checkpoint, name)


class ExternalPlayerWorker(EvaluationWorker):
    """Worker that plays the rating matches of an external player.

    A policy that breaks the rules forfeits the match. If the policy fails, the worker stops: unfinished matches are not
    reported and their leases are released, and finished matches count.
    """

    def _play(self, environment: str, loaded: Sequence[LoadedLease]) -> None:
        try:
            super()._play(environment, loaded)
        except ExternalPolicyError as error:
            self._session.release([each.lease.lease_id for each in loaded], [])
            raise ExternalPlayerError(
                f"{error}. Its unfinished matches do not count; start it again to continue"
            ) from error
