"""Opponent mix of a learner: the shares in the next draw, and those of its recent matches."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import TypeVar

from sqlalchemy import Select, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from league import wire
from league.db.models import Lease, Match
from league.player_names import display_name
from league.services.matches import counting
from league.services.matchmaking import leases
from league.services.matchmaking.pfsp import SELF_PLAY
from league.services.population.cache import PopulationCache
from league.settings import Settings

RECENT_MATCHES = 1000
"""Number of the learner's last matches to count."""


K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Played:
    """Number of matches and the learner's mean score in them; None without any."""

    matches: int = 0
    score: float | None = None


_NONE = Played()


@dataclass(frozen=True)
class BranchShare:
    """Share of a matchmaking branch in the next draw and in recent matches.

    Attributes:
        name: Name of the branch.
        rule: Its rule in words; empty for self-play and branches that no longer exist.
        now: Share of the next draw, in [0, 1].
        recent: Its recent matches.
        share: Share of recent matches, in [0, 1]; None without any.
    """

    name: str
    rule: str
    now: float
    recent: Played
    share: float | None


@dataclass(frozen=True)
class OpponentShare:
    """Share of an opponent in the next draw and in recent matches.

    Attributes:
        player_id: Id of the opponent; the learner itself for self-play.
        name: Its call-sign, or its name.
        now: Probability in the next draw, in [0, 1].
        win_rate: Win rate that matchmaking uses; None for opponents that are no longer eligible.
        recent: Recent matches against it.
        share: Share of recent matches, in [0, 1]; None without any.
    """

    player_id: int
    name: str
    now: float
    win_rate: float | None
    recent: Played
    share: float | None


@dataclass(frozen=True)
class Opposition:
    """A learner's opponents, most likely first.

    Attributes:
        branches: In the order of the rule, followed by branches that no longer exist.
        opponents: The most likely of the eligible and recent opponents.
        total: Number of eligible and recent opponents.
        matches: Number of recent matches.
    """

    branches: Sequence[BranchShare]
    opponents: Sequence[OpponentShare]
    total: int
    matches: int


@dataclass(frozen=True)
class _Played:
    branch: str
    opponent: int
    score: float


def get_opponent_mix(
    session: Session, settings: Settings, cache: PopulationCache, player_id: int, limit: int, *, self_play: bool = True
) -> Opposition:
    """Compare the distribution of the next lease with the learner's last matches.

    Args:
        session: A transaction.
        settings: Settings with the matchmaking rule.
        cache: Cached populations.
        player_id: Player id of the learner.
        limit: Maximum number of opponents.
        self_play: Whether the league draws self-play matches, as opposed to the trainer.

    Raises:
        UnknownPlayerError: There is no such player.
        InvalidRequestError: It is not a learner.
    """
    population = cache.of_player(session, player_id)
    content = leases.distribution_of(session, population, settings, player_id, self_play=self_play).record.content
    played, items = _played(session, player_id), content["items"]
    shares = {branch["name"]: branch["share"] for branch in content["branches"]}
    shares[SELF_PLAY] = content["self_play"]
    rules = {branch["name"]: branch["rule"] for branch in content["branches"]}
    by_branch = _group_scores((each.branch, each.score) for each in played)
    by_opponent = _group_scores((each.opponent, each.score) for each in played)
    win_rates = dict(zip(items["player_id"], items["win_rate"], strict=True))
    now = dict(zip(items["player_id"], items["propensity"], strict=True)) | {player_id: content["self_play"]}

    def share(recent: Played) -> float | None:
        return recent.matches / len(played) if played else None

    def relevance(opponent: int) -> tuple[float, int]:
        return now.get(opponent, 0.0), by_opponent.get(opponent, _NONE).matches

    branches = []
    for name in dict.fromkeys([*shares, *by_branch]):
        recent = by_branch.get(name, _NONE)
        if recent.matches or shares.get(name):
            branches.append(BranchShare(name, rules.get(name, ""), shares.get(name, 0.0), recent, share(recent)))
    relevant = [each for each in dict.fromkeys([*now, *by_opponent]) if now.get(each) or each in by_opponent]
    opponents = []
    for each in nlargest(limit, relevant, key=relevance):
        recent, name = by_opponent.get(each, _NONE), display_name(population.members[population.index(each)])
        opponents.append(OpponentShare(each, name, now.get(each, 0.0), win_rates.get(each), recent, share(recent)))
    return Opposition(branches, opponents, len(relevant), len(played))


def _played(session: Session, player_id: int) -> list[_Played]:
    """Read a learner's last counted training matches, newest first."""
    counted = counting.counted(session)

    def on(
        side: InstrumentedAttribute[int], other: InstrumentedAttribute[int], learner_side: wire.Side
    ) -> "Select[int, str, int, float]":
        query = select(Match.id, Lease.branch, other, Match.score).join(Lease, Lease.id == Match.lease_id)
        mine = side == player_id, Match.kind == "training", Lease.learner_side == learner_side
        return query.where(*mine, *counted).order_by(Match.id.desc()).limit(RECENT_MATCHES)

    # One query per side, as each walks its own index from the newest match.
    home = session.execute(on(Match.home_id, Match.away_id, "home")).all()
    away = session.execute(on(Match.away_id, Match.home_id, "away")).all()
    rows = [(match, _Played(branch, other, score)) for match, branch, other, score in home]
    rows += [(match, _Played(branch, other, 1.0 - score)) for match, branch, other, score in away]
    return [played for _, played in sorted(rows, key=lambda row: -row[0])[:RECENT_MATCHES]]


def _group_scores(scores: Iterable[tuple[K, float]]) -> Mapping[K, Played]:
    collected: defaultdict[K, list[float]] = defaultdict(list)
    for key, score in scores:
        collected[key].append(score)
    return {key: Played(len(each), sum(each) / len(each)) for key, each in collected.items()}
