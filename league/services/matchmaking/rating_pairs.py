"""Pairs of frozen players for rating leases: open gates first, then neighbours in a Thompson sample.

Players with a provisional rating are served first, so that candidates can soon be promoted.

An external player gets opponents only through the worker that runs it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sqlalchemy import select
from sqlalchemy.orm import Session

from arena.matchmaking.rating_matches import pairs_with, rating_pairs
from league.db.models import Gate
from league.services.audit.log import RULE
from league.services.matches import counting, pair_records
from league.services.matchmaking import pfsp
from league.services.matchmaking.explanations import DistributionRecord, filters_as_json, group_shares
from league.services.matchmaking.pfsp import OpponentPool
from league.services.population.cache import Population

PAIRING = "thompson"
"""Branch of rating leases."""
ENTRY = "entry"
"""Branch of rating leases with one external player."""

_PAIRING_RULE = (
    "neighbours in a Thompson sample of the ratings; provisional ratings first, then pairs and players with fewer games"
)

Pair = tuple[int, int]
"""Indices in the population."""


@dataclass(frozen=True)
class Evaluator:
    """The worker that requests pairs.

    Attributes:
        signatures: Environment signatures that it plays.
        unplayable: Ids of players that it could not play.
        external: Index of its external player; None if it plays frozen players.
    """

    signatures: Sequence[str]
    unplayable: frozenset[int]
    external: int | None


@dataclass(frozen=True, eq=False)
class PairPlan:
    """Planned pairs with their rule; `gate_id` is the gate that they are played for."""

    pairs: Sequence[Pair]
    record: DistributionRecord
    branch: str
    gate_id: int | None


@dataclass(frozen=True)
class OpenGate:
    """An open gate, as far as leases depend on it."""

    id: int
    candidate_id: int
    champion_id: int
    by_rule: bool


def choose_gate(
    session: Session,
    population: Population,
    evaluator: Evaluator,
    needs: Mapping[int, int],
    rule_share: float,
    rng: np.random.Generator,
) -> OpenGate | None:
    """Choose a gate for a worker that requests pairs, uniformly among those that it can play.

    Args:
        session: Session for the open gates, which are read once per population.
        population: Population of the environment.
        evaluator: The worker, which plays the gates of its external player, or those without one.
        needs: Number of pairs to lease now by gate id; gates that were opened since then are not in it.
        rule_share: Share of requests that may get a gate of the promotion rule, in [0, 1]. Gates opened by a user come
        first.
        rng: Random number generator.
    """
    everything = population.cached("gates", lambda: _open_gates(session, population.environment))
    playable = [each for each in everything if needs.get(each.id) != 0 and _can_play(evaluator, each, population)]
    # A person waits for these, so they take all pairs. Gates of the rule leave a share of the pairs to ratings.
    requested = [each for each in playable if not each.by_rule]
    if requested or (playable and rng.random() < rule_share):
        choices = requested or playable
        return choices[rng.integers(len(choices))]
    return None


def plan_gate(population: Population, gate: OpenGate, count: int) -> PairPlan:
    """Return pairs of a gate's two players."""
    two = population.index(gate.candidate_id), population.index(gate.champion_id)
    rule = f"pairs of matches for gate {gate.id}, with the same seed and swapped sides"
    pool = OpponentPool.of(population, np.array(two, dtype=np.int64), ())
    return PairPlan(count * [two], _record(population, pool, counting.GATE, rule), counting.GATE, gate.id)


def plan_pairs(
    session: Session,
    population: Population,
    evaluator: Evaluator,
    count: int,
    max_error: float,
    rng: np.random.Generator,
) -> PairPlan:
    """Pair frozen players, or the worker's external player with frozen ones.

    Ratings with a standard error above the maximum are provisional, and their players come first.
    """
    if evaluator.external is not None:
        return _plan_entry(session, population, evaluator, evaluator.external, count, rng)
    # Sorted: the order of a set differs between processes, and the same seed must choose the same pool.
    signatures = sorted({*evaluator.signatures}) or [""]
    pools = [pfsp.opponent_pool(population, each, evaluator.unplayable) for each in signatures]
    # A signature with a single player has no pair.
    choices = [pool for pool in pools if pool.indices.size > 1] or pools
    pool = choices[rng.integers(len(choices))]
    record = population.cached(
        ("pairing", pool.indices.tobytes(), pool.filters), lambda: _record(population, pool, PAIRING, _PAIRING_RULE)
    )
    indices, ratings = pool.indices, population.ratings
    pairs = rating_pairs(
        ratings.rating[indices],
        ratings.deviation[indices],
        population.games[indices],
        count,
        rng,
        anchors=np.array([population.members[index].kind == "baseline" for index in indices], dtype=np.bool_),
        pair_games=_load_pair_games(session, population, indices),
        provisional=population.standard_errors[indices] > max_error,
    )
    return PairPlan(indices[pairs].tolist(), record, PAIRING, None)


def _plan_entry(
    session: Session, population: Population, evaluator: Evaluator, own: int, count: int, rng: np.random.Generator
) -> PairPlan:
    member = population.members[own]
    pool = pfsp.opponent_pool(population, member.signature, evaluator.unplayable)
    rule = f"neighbours of {member.name} in a Thompson sample of the ratings; pairs with fewer games first"
    # The external player is first, at the index 0 that `pairs_with` pairs with the others.
    candidates = np.concatenate(([own], pool.indices)).astype(np.int64)
    pair_games, ratings = _load_pair_games(session, population, candidates), population.ratings
    pairs = pairs_with(0, ratings.rating[candidates], ratings.deviation[candidates], count, rng, pair_games=pair_games)
    return PairPlan(candidates[pairs].tolist(), _record(population, pool, ENTRY, rule), ENTRY, None)


def _record(population: Population, pool: OpponentPool, branch: str, rule: str) -> DistributionRecord:
    """Return the explanation of a pairing rule, which has no probabilities in closed form."""
    unknown = [None] * pool.indices.size
    content = {
        "self_play": 0.0,
        "branches": [
            {
                "name": branch,
                "share": 1.0,
                "rule": rule,
                "opponents": pool.indices.size,
                "effective_opponents": None,
                "groups": group_shares(pool.groups, None),
            }
        ],
        "filters": filters_as_json(pool.filters),
        "items": pool.items(population.games[pool.indices])
        | {"propensity": unknown, "win_rate": unknown, "weights": {}},
    }
    return DistributionRecord.of(content)


def _load_pair_games(session: Session, population: Population, indices: NDArray[np.int64]) -> csr_array:
    """Return (P, P) numbers of matches between players; pairs with fewer matches are preferred."""
    return population.cached(
        ("pair_games", indices.tobytes()),
        lambda: pair_records.pair_games(session, population.environment, population.ids[indices].tolist()),
    )


def _open_gates(session: Session, environment: str) -> tuple[OpenGate, ...]:
    query = select(Gate).where(Gate.state == "open", Gate.environment == environment).order_by(Gate.id)
    return tuple(
        OpenGate(gate.id, gate.candidate_id, gate.champion_id, gate.actor == RULE) for gate in session.scalars(query)
    )


def _can_play(evaluator: Evaluator, gate: OpenGate, population: Population) -> bool:
    two = population.index(gate.candidate_id), population.index(gate.champion_id)
    members = [population.members[index] for index in two]
    if evaluator.unplayable.intersection(member.id for member in members):
        return False
    if any(member.standing == "quarantined" for member in members):
        return False
    # Only the process that entered an external player has its policy.
    externals = {index for index in two if population.members[index].kind == "external"}
    brought = set() if evaluator.external is None else {evaluator.external}
    return externals == brought and members[0].signature in evaluator.signatures
