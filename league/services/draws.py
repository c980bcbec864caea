"""Distributions over opponents: made from the population, shown, and kept beside the leases drawn from them."""

import hashlib
import json
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select
from sqlalchemy.orm import Session

from arena import payoff as arithmetic
from arena.glicko2 import expected_score
from arena.matchmaking import Candidates, Distribution, opponent_distribution
from league import wire
from league.config import Settings
from league.db.models import Draw, Player
from league.db.upsert import insert_into
from league.errors import InvalidRequestError
from league.services import payoffs, standings
from league.services.population import Population, PopulationCache

_HASH_DIGITS = 32


@dataclass(frozen=True, eq=False)
class LearnerDraw:
    """What a learner's next opponents are drawn from.

    Attributes:
        learner: Place of the learner in the population.
        opponents: (K,) places of the candidates.
        matches: (K,) matches of the learner against each.
        win_rates: (K,) the learner's, estimated.
        distribution: Over the K candidates and self-play.
        self_play: Whether self-play was asked for; where there is nobody else it is what there is.
    """

    learner: int
    opponents: NDArray[np.int64]
    matches: NDArray[np.int64]
    win_rates: NDArray[np.float64]
    distribution: Distribution
    self_play: bool


def of_learner(population: Population, settings: Settings, player_id: int, *, self_play: bool) -> LearnerDraw:
    """Make the distribution of a learner's next opponent, with the league's share of self-play or with none.

    Raises:
        UnknownPlayerError: The population has no such player.
        InvalidRequestError: The player is not a learner.
    """
    learner = population.place(player_id)
    member = population.members[learner]
    if member.kind != "learner":
        rule = f"{member.name} is a {member.kind}; opponents are drawn for learners"
        raise InvalidRequestError(f"player {player_id}", rule, "pass a learner's player_id, as POST /learners gave it")
    opponents = np.array(population.opponents({member.signature}), dtype=np.int64)
    ids = [population.members[place].id for place in opponents]
    records = payoffs.against(population.counts, player_id, ids)
    expected = expected_score(population.ratings, np.full(opponents.size, learner), opponents)
    win_rates = arithmetic.win_rates(payoffs.tally(records), expected)
    candidates = Candidates(
        learner_rating=float(population.ratings.rating[learner]),
        learner_games=int(population.games[learner]),
        ratings=population.ratings.rating[opponents],
        win_rates=win_rates,
    )
    return LearnerDraw(
        learner=learner,
        opponents=opponents,
        matches=np.array([record.matches for record in records], dtype=np.int64),
        win_rates=win_rates,
        distribution=opponent_distribution(
            candidates, settings.matchmaking if self_play else replace(settings.matchmaking, self_play_share=0.0)
        ),
        self_play=self_play,
    )


def preview(session: Session, settings: Settings, cache: PopulationCache, player_id: int) -> wire.Preview:
    """Show the distribution that a learner's next lease is drawn from.

    Raises:
        UnknownPlayerError: There is no such player.
        InvalidRequestError: It is not a learner.
    """
    player, _ = standings.require(session, player_id)
    population = cache.get(session, player.environment)
    account = account_of_learner(population, of_learner(population, settings, player_id, self_play=True))
    return wire.Preview.model_validate(
        {"player_id": player_id, "environment": player.environment, **_named(account, _names(session, account))}
    )


def account_of_learner(population: Population, draw: LearnerDraw) -> dict[str, Any]:
    """Return a learner's distribution as JSON, rounded to what a reader needs."""
    distribution = draw.distribution
    shares = {branch.name: branch.share for branch in distribution.branches}
    filters = [] if draw.self_play else ["self-play: none was asked for; the trainer has its own"]
    return {
        "branches": {"self-play": distribution.self_play, **shares},
        "self_play": distribution.self_play,
        "filters": filters + [f"{branch.name}: {branch.filter}" for branch in distribution.branches if branch.filter],
        "items": _items(population, draw.opponents, draw.matches)
        | {
            "propensity": _rounded(distribution.probabilities, 6),
            "win_rate": _rounded(draw.win_rates, 4),
        },
    }


def account_of_pairing(population: Population, places: NDArray[np.int64], branch: str) -> dict[str, Any]:
    """Return what rating pairs were sampled from as JSON."""
    unknown = [None] * places.size
    return {
        "branches": {branch: 1.0},
        "self_play": 0.0,
        "filters": ["frozen players in play under the worker's signatures"],
        "items": _items(population, places, population.games[places]) | {"propensity": unknown, "win_rate": unknown},
    }


def keep(session: Session, account: dict[str, Any], now: datetime) -> str:
    """Store a distribution once, under the hash of its content; return that."""
    content = json.dumps(account, sort_keys=True)
    draw_id = hashlib.sha256(content.encode()).hexdigest()[:_HASH_DIGITS]
    if session.scalar(select(Draw.id).where(Draw.id == draw_id)) is None:
        row = {"id": draw_id, "distribution": account, "created_at": now}
        session.execute(insert_into(session, Draw).values(row).on_conflict_do_nothing())
    return draw_id


def kept(session: Session, draw_id: str) -> dict[str, Any]:
    """Return the wire fields of a stored distribution."""
    account = session.scalars(select(Draw.distribution).where(Draw.id == draw_id)).one()
    return _named(account, _names(session, account))


def _items(population: Population, places: NDArray[np.int64], games: NDArray[np.int64]) -> dict[str, list[Any]]:
    return {
        "player_id": [population.members[place].id for place in places],
        "games": games.tolist(),
        "rating": _rounded(population.ratings.rating[places], 1),
        "deviation": _rounded(population.ratings.deviation[places], 1),
    }


def _rounded(values: NDArray[np.float64], digits: int) -> list[float]:
    rounded: list[float] = np.round(values, digits).tolist()
    return rounded


def _names(session: Session, account: dict[str, Any]) -> dict[int, str]:
    ids = account["items"]["player_id"]
    return dict(session.execute(select(Player.id, Player.name).where(Player.id.in_(ids))).all())


def _named(account: dict[str, Any], names: dict[int, str]) -> dict[str, Any]:
    columns = account["items"]
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return account | {"items": [row | {"name": names[row["player_id"]]} for row in rows]}
