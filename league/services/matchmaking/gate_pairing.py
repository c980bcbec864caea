"""Gate pairing: the gate that an evaluator plays next."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from league.db.models import Gate
from league.services.gates.sprt import RULE
from league.services.matches import counting
from league.services.matchmaking import opponents
from league.services.matchmaking.opponents import DrawRecord
from league.services.population.cache import Population


@dataclass(frozen=True)
class OpenGate:
    """What granting leases needs to know of an open gate."""

    id: int
    candidate_id: int
    champion_id: int
    by_rule: bool


def next_to_play(
    session: Session,
    population: Population,
    signatures: Sequence[str],
    unplayable: frozenset[int],
    enough: Collection[int],
    rule_share: float,
    rng: np.random.Generator,
    brought: int | None = None,
) -> OpenGate | None:
    """Choose a gate for a worker that asks for pairs; each that it can play is as likely as the others.

    Args:
        session: Reads the open gates, once per population.
        population: Of the environment.
        signatures: Which the evaluator plays.
        unplayable: Ids of players that it could not play.
        enough: Ids of gates that need no more pairs unless some are lost.
        rule_share: How often gates of the rule of promotion are looked at, in [0, 1]. Those that a person asked for
            come first, whatever else there is to play.
        rng: Source of chance.
        brought: Id of the external player that the worker brings, and whose gates alone it plays; None for an
            evaluator, which plays those of nobody external.
    """
    everything = population.cached("gates", lambda: _open(session, population.environment))
    playable = [
        each
        for each in everything
        if each.id not in enough
        and _externals(each, population) == ({brought} - {None})
        and _playable(each, population, signatures, unplayable)
    ]
    asked_for = [each for each in playable if not each.by_rule]
    if asked_for or (playable and rng.random() < rule_share):
        among = asked_for or playable
        return among[rng.integers(len(among))]
    return None


def seats(population: Population, gate: OpenGate) -> tuple[tuple[int, int], DrawRecord]:
    """Return the places of a gate's two players in the population, and the account of why they meet."""
    places = population.place(gate.candidate_id), population.place(gate.champion_id)
    rule = f"pairs for gate {gate.id} until it has a verdict, sides swapped on each seed"
    account = opponents.between(population, np.array(places, dtype=np.int64), (), counting.GATE, rule)
    return places, account


def _open(session: Session, environment: str) -> tuple[OpenGate, ...]:
    query = select(Gate).where(Gate.state == "open", Gate.environment == environment).order_by(Gate.id)
    return tuple(
        OpenGate(gate.id, gate.candidate_id, gate.champion_id, gate.actor == RULE) for gate in session.scalars(query)
    )


def _externals(gate: OpenGate, population: Population) -> set[int]:
    """Return the ids of the external players that a gate tests."""
    two = (gate.candidate_id, gate.champion_id)
    return {each for each in two if population.members[population.place(each)].kind == "external"}


def _playable(gate: OpenGate, population: Population, signatures: Sequence[str], unplayable: frozenset[int]) -> bool:
    two = (gate.candidate_id, gate.champion_id)
    members = [population.members[population.place(each)] for each in two]
    return (
        not unplayable.intersection(two)
        and all(member.standing != "quarantined" for member in members)
        and members[0].signature in signatures
    )
