"""What came of a run: exact values of the newest main and of the population, through time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
from scipy.optimize import linprog

from arena.evaluation.nash_averaging import max_entropy_nash
from arena.policies.checkpoint import NEWEST, decode, load
from studies.league_value.games import FloatArray, Game
from league.client import LeagueClient
from league.wire import Player, Role

CURVE_POINTS = 60
"""Most mains of a run that are valued: each takes a Nash mixture of all who were there."""

SAFEST_STEPS, SAFEST_TOLERANCE = 1000, 1e-5
"""Most steps towards the least exploitable mixture, and how near to it is enough, in largest returns."""

_PAGE = 500
_MAIN: Role = "main"
_FINDER: Role = "main_exploiter"


@dataclass(frozen=True, eq=False)
class Member:
    """A player of the population with frozen weights, and when it was there."""

    role: Role
    step: int
    published_at: datetime
    policy: FloatArray


@dataclass(frozen=True)
class Point:
    """Exploitability when a main published, in the game's units.

    Attributes:
        steps: Environment steps of all learners together, all taken to be as far as the main.
        newest: Of the main as it then was.
        mixture: Of the Nash mixture of all who were published by then.
    """

    steps: int
    newest: float
    mixture: float


@dataclass(frozen=True)
class Outcome:
    """What one run came to.

    Attributes:
        curve: In the order of training; the last point is of the main's last weights.
        safest: Exploitability of the least exploitable mixture of all who were published and the last weights.
        worst_score: Of the last weights against the main's own past, in [0, 1]: below 0.5 it has forgotten something.
        found: Mean share of what a best response would win of the main that its exploiters' snapshots do win; 0 where
            there are none.
        resets: How often learners began anew.
        met: Shares of the main's matches against others, by their role; scripted players under "baseline".
    """

    curve: list[Point]
    safest: float
    worst_score: float
    found: float
    resets: int
    met: dict[str, float]


def measure(client: LeagueClient, environment: str, game: Game, run: Path, main_share: float) -> Outcome:
    """Measure a run that has ended.

    Args:
        client: Of its league.
        environment: What was played.
        game: The same, with exact values.
        run: Folder of the main's trainer.
        main_share: Of all environment steps that the main had, in (0, 1].
    """
    snapshots = _snapshots(client, environment)
    members = [_member(client, player, game) for player in snapshots]
    listed = client.learners(environment).items
    main = next(learner for learner in listed if learner.role == _MAIN)
    last = Member(_MAIN, main.step or 0, datetime.max.replace(tzinfo=main.created_at.tzinfo), _last(game, run))
    past = [member for member in members if member.role == _MAIN]
    return Outcome(
        curve=[point(game, [*members, last], main, main_share) for main in [*spread(past, CURVE_POINTS - 1), last]],
        safest=safest(game, np.stack([member.policy for member in [*members, last]])),
        worst_score=worst_score(game, last, past),
        found=found(game, members),
        resets=sum(learner.resets for learner in listed),
        met=_met(client, environment, main.player_id, snapshots),
    )


def spread(members: Sequence[Member], most: int) -> list[Member]:
    """Return as many members as that, evenly out of their order; all of them where there are no more."""
    return (
        [members[place] for place in np.unique(np.linspace(0, len(members) - 1, most).astype(int))] if members else []
    )


def point(game: Game, members: Sequence[Member], main: Member, main_share: float) -> Point:
    """Value a main, and the mixture of all that were published no later."""
    policies = np.stack([member.policy for member in members if member.published_at <= main.published_at])
    mixture = game.mix(policies, max_entropy_nash(scores(lead(game, policies))))
    return Point(round(main.step / main_share), game.exploitability(main.policy), game.exploitability(mixture))


def safest(game: Game, policies: FloatArray) -> float:
    """Return the exploitability of the least exploitable mixture of policies.

    No more than that of their Nash mixture, which is safe from them alone. A linear program finds the mixture that does
    best against all responses so far, and the best response to it is the next, until the bound of the program is met.

    Raises:
        ArithmeticError: It was not met in `SAFEST_STEPS`.
    """
    weights, least, gains = np.full(len(policies), 1.0 / len(policies)), np.inf, []
    for _ in range(SAFEST_STEPS):
        mixture = game.mix(policies, weights)
        least = min(least, game.exploitability(mixture))
        gains.append(lead(game, np.stack([game.best_response(mixture), *policies]))[0, 1:])
        weights, bound = _most_cautious(np.stack(gains))
        if least - bound <= SAFEST_TOLERANCE * game.largest:
            return least
    raise ArithmeticError(f"the least exploitable mixture of {len(policies)} policies is between {bound} and {least}")


def lead(game: Game, policies: FloatArray) -> FloatArray:
    """(M, M) what policy i wins of policy j, mean of both sides, in the game's units."""
    returns = game.returns(policies)
    return np.asarray((returns - returns.T) / 2.0)


def scores(leads: FloatArray) -> FloatArray:
    """(M, M) win rates with the same Nash mixtures, spread over [0, 1] so that a solver can tell them apart."""
    return np.asarray(0.5 + leads / (2.0 * max(float(abs(leads).max()), np.finfo(np.float64).tiny)))


def worst_score(game: Game, main: Member, past: Sequence[Member]) -> float:
    """Return the least score of a main against its own past; 0.5 where it has none."""
    leads = lead(game, np.stack([main.policy, *(member.policy for member in past)]))
    return float(0.5 + leads[0].min() / (2.0 * game.largest))


def found(game: Game, members: Sequence[Member]) -> float:
    """Return what exploiters of mains win of the main that was there, as a share of what can be won, on average."""
    shares = []
    for finder in members:
        mains = [each for each in members if each.role == _MAIN and each.published_at < finder.published_at]
        if finder.role == _FINDER and mains:
            main = max(mains, key=lambda each: each.published_at)
            gain = lead(game, np.stack([finder.policy, main.policy]))[0, 1]
            shares.append(gain / game.exploitability(main.policy))
    return float(np.mean(shares)) if shares else 0.0


def _most_cautious(gains: FloatArray) -> tuple[FloatArray, float]:
    """Return the mixture (M,) of which the best of R responses, with gains (R, M), wins least, and what that wins."""
    responses, members = gains.shape
    found = linprog(
        [*np.zeros(members), 1.0],
        A_ub=np.column_stack([gains, -np.ones(responses)]),
        b_ub=np.zeros(responses),
        A_eq=[[*np.ones(members), 0.0]],
        b_eq=[1.0],
        bounds=[*[(0.0, 1.0)] * members, (None, None)],
    )
    weights = np.maximum(found.x[:-1], 0.0)
    return weights / weights.sum(), float(found.fun)


def _snapshots(client: LeagueClient, environment: str) -> list[Player]:
    players: list[Player] = []
    cursor = None
    while True:
        page = client.players(environment, kind="snapshot", limit=_PAGE, cursor=cursor)
        players += page.items
        if (cursor := page.next_cursor) is None:
            return players


def _member(client: LeagueClient, player: Player, game: Game) -> Member:
    assert player.role is not None  # as every snapshot has
    assert player.step is not None
    assert player.checkpoint is not None
    policy = decode(client.download(player.checkpoint), source=player.name)
    return Member(player.role, player.step, player.created_at, game.tabulate(policy.network))


def _last(game: Game, run: Path) -> FloatArray:
    return game.tabulate(load(run / NEWEST).network)


def _met(client: LeagueClient, environment: str, main: int, snapshots: Sequence[Player]) -> dict[str, float]:
    roles = {player.id: str(player.role) for player in snapshots}
    table = client.payoff(environment, limit=_PAGE)
    numbers = [player.player_id for player in table.players]
    games: dict[str, int] = {}
    for number, count in zip(numbers, table.counts[numbers.index(main)], strict=True):
        role = roles.get(number, "baseline")
        games[role] = games.get(role, 0) + count
    total = max(1, sum(games.values()))
    return {role: count / total for role, count in sorted(games.items()) if count}
