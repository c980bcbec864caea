"""Double oracle: a pool of players that grows by best responses to its Nash mixture.

The oracle is a random search over the tactics: new ones, and mutations of those in the mixture.

Source: McMahan, Gordon and Blum, "Planning in the presence of cost functions controlled by an adversary" (2003).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from arena.arrays import FloatArray
from arena.depth.matches import NamedPolicy, Player
from arena.evaluation.nash_averaging import max_entropy_nash
from arena.evaluation.payoff import WinCounts, beta_moments, cyclic_share
from arena.play.series import score_interval
from arena.policies.mech.tactics import Tactic, mutate, random_tactic
from arena.seeding import derive

FINALISTS = 4
"""Candidates of the first screening that are screened again, with new matches."""

PATIENCE = 3
"""Rounds in a row without an admission that end the search."""

FRESH_SHARE = 0.5
"""Share of the candidates that are new; the others are mutations."""


class Matches(Protocol):
    """Plays matches, see `TacticMatches`."""

    @property
    def parameters(self) -> Sequence[str]:
        """Parameters of the tactics that matter."""
        ...

    def scores(self, pairs: Sequence[tuple[Player, Player]], seed: int) -> FloatArray:
        """Return the first players' scores."""
        ...


@dataclass(frozen=True)
class Budget:
    """Size of the search.

    Attributes:
        matches: Matches between two players of the pool; an even number.
        rounds: Most rounds.
        candidates: Candidates of a round.
        screening: Matches of each candidate in the first screening; an even number.
    """

    matches: int = 128
    rounds: int = 16
    candidates: int = 32
    screening: int = 32


@dataclass(frozen=True)
class Round:
    """Best challenger of a round.

    Attributes:
        challenger: The tactic.
        score: Its score against the Nash mixture, in matches of their own.
        admitted: Whether that is significantly above 1/2; then it is in the pool.
    """

    challenger: Tactic
    score: float
    admitted: bool


@dataclass
class Pool:
    """P players and their results.

    Attributes:
        players: The players.
        games: (P, P) matches between two players.
        points: (P, P) points of the row's player.
        rounds: Rounds of the search so far.
    """

    players: list[Player]
    games: FloatArray
    points: FloatArray
    rounds: list[Round] = field(default_factory=list)

    @property
    def win_rate(self) -> FloatArray:
        """(P, P) mean scores with a uniform prior; 0.5 on the diagonal."""
        return beta_moments(self._counts)[0]

    @property
    def nash(self) -> FloatArray:
        """(P,) maximum-entropy Nash mixture."""
        return max_entropy_nash(self.win_rate)

    @property
    def cyclic(self) -> float:
        """Cyclic share of the log-odds (see `cyclic_share`)."""
        return cyclic_share(self.win_rate, self.games)

    @property
    def stalled(self) -> bool:
        """Whether the last rounds found no better response."""
        return len(self.rounds) >= PATIENCE and not any(each.admitted for each in self.rounds[-PATIENCE:])

    @property
    def _counts(self) -> WinCounts:
        unknown = np.full_like(self.games, np.nan)
        return WinCounts(self.games, self.points, wins=unknown, draws=unknown, losses=unknown)

    def add(self, player: Player, matches: Matches, count: int, seed: int) -> None:
        """Add a player after `count` matches against each of the others."""
        others = len(self.players)
        pairs = [(player, other) for other in self.players for _ in range(count)]
        won = matches.scores(pairs, seed).reshape(others, count).sum(axis=1) if pairs else np.zeros(0)
        self.players.append(player)
        self.games, self.points = (np.pad(each, (0, 1)) for each in (self.games, self.points))
        self.games[others, :others] = self.games[:others, others] = count
        self.points[others, :others], self.points[:others, others] = won, count - won

    def to_dict(self) -> dict[str, Any]:
        """Return the pool as JSON values."""
        return {
            "players": [
                {"tactic": each.to_dict()} if isinstance(each, Tactic) else {"name": each.name} for each in self.players
            ],
            "games": self.games.tolist(),
            "points": self.points.tolist(),
            "rounds": [
                {"challenger": each.challenger.to_dict(), "score": each.score, "admitted": each.admitted}
                for each in self.rounds
            ],
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any], named: Sequence[NamedPolicy]) -> "Pool":
        """Return the pool of `to_dict`, with these policies."""
        by_name = {each.name: each for each in named}
        return cls(
            players=[
                Tactic.from_dict(each["tactic"]) if "tactic" in each else by_name[each["name"]]
                for each in values["players"]
            ],
            games=np.array(values["games"]),
            points=np.array(values["points"]),
            rounds=[
                Round(Tactic.from_dict(each["challenger"]), each["score"], each["admitted"])
                for each in values["rounds"]
            ],
        )


def open_pool(players: Sequence[Player], matches: Matches, count: int, seed: int) -> Pool:
    """Return a pool after a round robin."""
    pool = Pool([], np.zeros((0, 0)), np.zeros((0, 0)))
    for index, player in enumerate(players):
        pool.add(player, matches, count, derive(seed, "opening", index))
    return pool


def search(pool: Pool, matches: Matches, budget: Budget, seed: int, on_round: Callable[[], None]) -> None:
    """Add best responses to the pool until no round finds one. Rounds that the pool already has are not repeated.

    Args:
        pool: The pool; it grows.
        matches: Plays the matches.
        budget: Size of the search.
        seed: Seed of candidates and matches; every round derives its own.
        on_round: Called after every round.
    """
    while len(pool.rounds) < budget.rounds and not pool.stalled:
        own = derive(seed, "round", len(pool.rounds))
        best, score = _best_response(pool, matches, budget, own)
        admitted = score_interval(score, budget.matches)[0] > 0.5
        if admitted:
            pool.add(best, matches, budget.matches, derive(own, "row"))
        pool.rounds.append(Round(best, score, admitted))
        on_round()


def _best_response(pool: Pool, matches: Matches, budget: Budget, seed: int) -> tuple[Tactic, float]:
    """Return the best candidate against the Nash mixture, with its score in matches that did not select it."""
    mixture = pool.nash
    candidates = _candidates(pool, mixture, matches.parameters, budget.candidates, seed)
    for name, count, remaining in (
        ("screening", budget.screening, FINALISTS),
        ("final", budget.matches, 1),
    ):
        score = _against(candidates, pool, mixture, count, matches, derive(seed, name))
        order = np.argsort(-score, kind="stable")[:remaining]
        candidates = [candidates[index] for index in order]
    score = _against(candidates, pool, mixture, budget.matches, matches, derive(seed, "confirm"))
    return candidates[0], float(score[0])


def _candidates(pool: Pool, mixture: FloatArray, names: Sequence[str], count: int, seed: int) -> list[Tactic]:
    """Return new tactics and mutations of those in the mixture."""
    rng = np.random.default_rng(seed)
    tactics = [each for each in pool.players if isinstance(each, Tactic)]
    known = set(tactics)
    drawn = sample_mixture(pool.players, mixture, count, seed)
    # A mixture of policies alone has no parameters to mutate.
    parents = [each for each in drawn if isinstance(each, Tactic)] or tactics
    found: list[Tactic] = []
    while len(found) < count:
        if parents and rng.random() >= FRESH_SHARE:
            tactic = mutate(parents[int(rng.integers(len(parents)))], names, rng)
        else:
            tactic = random_tactic(names, rng)
        if tactic not in known:
            known.add(tactic)
            found.append(tactic)
    return found


def _against(
    tactics: Sequence[Tactic], pool: Pool, mixture: FloatArray, count: int, matches: Matches, seed: int
) -> FloatArray:
    """Return the mean score of every tactic against the mixture, all against the same opponents."""
    opponents = sample_mixture(pool.players, mixture, count // 2, seed)
    pairs = [(tactic, other) for tactic in tactics for other in opponents for _ in (0, 1)]
    score: FloatArray = matches.scores(pairs, seed).reshape(len(tactics), -1).mean(axis=1)
    return score


def sample_mixture(players: Sequence[Player], mixture: FloatArray, count: int, seed: int) -> list[Player]:
    """Draw players from a mixture, systematically: each appears its expected number of times, up to one."""
    rng = np.random.default_rng(derive(seed, "mixture"))
    edges = np.cumsum(mixture) / mixture.sum()
    points = (np.arange(count) + rng.random()) / count
    drawn = [players[int(index)] for index in np.minimum(np.searchsorted(edges, points), len(players) - 1)]
    return [drawn[index] for index in rng.permutation(count)]
