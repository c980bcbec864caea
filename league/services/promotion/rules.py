"""Rules of promotion, retirement and succession, applied after each rating period."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from arena.evaluation import payoff as arithmetic
from arena.evaluation.sprt import SprtConfig
from arena.population import promotion as rule
from arena.population.promotion import Decision, GateRequest, GateResult, HeadToHead, Roster
from arena.ratings.glicko2 import Ratings
from league import wire
from league.player_names import display_name
from league.services.audit.log import RULE, Cause
from league.services.gates import service as gates
from league.services.lifecycle import champions, transitions
from league.services.matches import pair_records
from league.services.population import cache as populations
from league.services.population.cache import Member, Population, PopulationCache
from league.services.promotion import redundancy
from league.services.ratings import rated_players
from league.settings import Settings


def apply(session: Session, settings: Settings, population: Population, now: datetime) -> None:
    """Promote and retire snapshots by rule within each signature of an environment, and update the champion.

    Players of different signatures cannot meet, so the champion is a player of the newest signature.
    """
    environment = population.environment
    frozen = [index for index, member in enumerate(population.members) if _concerned(member)]
    if not frozen:
        return
    if settings.retire_redundant and _retire_redundant(session, settings, population, now):
        population = populations.load(session, environment)
        frozen = [index for index, member in enumerate(population.members) if _concerned(member)]
    champion = champions.champion_id(session, environment)
    signatures = [population.members[index].signature for index in frozen]
    for signature in sorted({*signatures}):
        indices = [index for index, own in zip(frozen, signatures, strict=True) if own == signature]
        ids = [population.members[index].id for index in indices]
        before = _roster(session, settings, population, indices, champion)
        roster = _promote(session, settings, before, ids, now)
        # Players are ordered by id, so the last one has the newest signature.
        if signature == signatures[-1]:
            roster = _update_champion(session, settings, roster, ids, champion, now)
        newcomers = np.flatnonzero(roster.commander & ~before.commander).tolist()
        for decision in rule.retirements(roster, settings.promotion, newcomers):
            _change(session, settings, ids, "retire", decision, now)


def explain_candidate(session: Session, settings: Settings, cache: PopulationCache, player: wire.Player) -> str | None:
    """Return the rule's reason why a candidate is not promoted yet, by the current ratings; None for other players.

    Only this candidate is judged, as if no other one were promoted first.
    """
    if not settings.automatic_promotion or player.kind != "snapshot" or player.standing != "candidate":
        return None
    population = cache.get(session, player.environment)
    indices = [
        index
        for index, member in enumerate(population.members)
        if member.signature == player.signature and _concerned(member)
    ]
    champion = champions.champion_id(session, player.environment)
    roster = _roster(session, settings, population, indices, champion, [player.id])
    (decision,) = rule.promotions(roster, settings.promotion)
    return f"{decision.reason}; promoted when the next rating period closes" if decision.approved else decision.reason


def _retire_redundant(session: Session, settings: Settings, population: Population, now: datetime) -> bool:
    """Retire redundant snapshots; return True if there were any."""
    found = redundancy.find(session, settings, population)
    for snapshot in found:
        player_id, reason = snapshot.player.id, snapshot.words()
        transitions.transition(session, settings, player_id, "retire", Cause(RULE, reason, now))
    return bool(found)


def _concerned(member: Member) -> bool:
    """Return True if the rules apply to a player, which they do not to external players."""
    return member.kind not in ("learner", "external") and member.standing not in rated_players.OUT_OF_PLAY


def _promote(session: Session, settings: Settings, roster: Roster, ids: list[int], now: datetime) -> Roster:
    decisions = rule.promotions(roster, settings.promotion)
    trials = [decision for decision in decisions if isinstance(decision, GateRequest)]
    if trials and all(result.decision != "continue" for result in roster.gates.values()):
        gates.find_or_open(session, _gate(settings, ids, trials[0]), RULE, now)  # one at a time
    promoted = [decision for decision in decisions if decision.approved]
    for decision in promoted:
        _change(session, settings, ids, "promote", decision, now)
    raised = _mask(promoted, len(ids))
    return replace(roster, candidate=roster.candidate & ~raised, commander=roster.commander | raised)


def _gate(settings: Settings, ids: Sequence[int], trial: GateRequest) -> wire.GateCreate:
    return wire.GateCreate(
        candidate_id=ids[trial.player],
        champion_id=ids[trial.rival],
        elo0=settings.promotion.gate_elo0,
        elo1=settings.promotion.gate_elo1,
        reason=trial.reason,
    )


def _update_champion(
    session: Session, settings: Settings, roster: Roster, ids: list[int], champion: int | None, now: datetime
) -> Roster:
    decision = rule.succession(roster, settings.promotion)
    # At most one gate for the title is open at a time, beside at most one for promotion.
    if isinstance(decision, GateRequest) and all(gate.decision != "continue" for gate in roster.title_gates.values()):
        gates.find_or_open(session, _gate(settings, ids, decision), RULE, now)
    if decision is None or not decision.approved:
        return roster
    player = ids[decision.player]
    transitions.set_champion(session, player, Cause(RULE, decision.reason, now), expected=champion)
    return replace(roster, champion=_mask([decision], len(ids)))


def _change(
    session: Session, settings: Settings, ids: list[int], name: transitions.Change, decision: Decision, now: datetime
) -> None:
    transitions.transition(session, settings, ids[decision.player], name, Cause(RULE, decision.reason, now))


def _mask(decisions: Sequence[Decision], players: int) -> NDArray[np.bool_]:
    chosen = np.zeros(players, dtype=np.bool_)
    chosen[[decision.player for decision in decisions]] = True
    return chosen


def _roster(
    session: Session,
    settings: Settings,
    population: Population,
    indices: Sequence[int],
    champion: int | None,
    judged: Sequence[int] | None = None,
) -> Roster:
    """Return the roster of players by their indices in the population; of its candidates, only those judged by id."""
    members = [population.members[index] for index in indices]
    every = population.ratings
    ratings = Ratings(*(column[indices] for column in (every.rating, every.deviation, every.volatility)))
    ids = [member.id for member in members]
    places = np.array(indices, dtype=np.int64)
    candidates = {
        member for member in members if member.standing == "candidate" and (judged is None or member.id in judged)
    }

    def expected(player: int, others: Sequence[int]) -> NDArray[np.float64]:
        return population.expected(np.full(len(others), places[player]), places[list(others)])

    def record(player: int, others: Sequence[int]) -> HeadToHead:
        own = pair_records.of_player(session, ids[player])
        counts, _ = pair_records.against(own, ids[player], [ids[other] for other in others])
        without_records = population.expected_matrix(places[[player, *others]])[0, 1:]
        return HeadToHead(arithmetic.win_rates(counts, without_records), counts.games)

    return Roster(
        names=tuple(display_name(member) for member in members),
        ratings=ratings,
        games=population.games[indices],
        standard_error=population.standard_errors[indices],
        candidate=np.array([member in candidates for member in members], dtype=np.bool_),
        commander=np.array([member.standing == "commander" for member in members], dtype=np.bool_),
        champion=np.array([member.id == champion for member in members], dtype=np.bool_),
        baseline=np.array([member.kind == "baseline" for member in members], dtype=np.bool_),
        expected=expected,
        record=record,
        gates=_gates(session, settings, members, candidates),
        title_gates=_title_gates(session, settings, members, champion),
    )


def _gates(
    session: Session, settings: Settings, members: Sequence[Member], candidates: Collection[Member]
) -> dict[int, GateResult]:
    """Return the results of gates with the rule's test, by the candidates' indices.

    Gates that a user opened also count if the opponent is a commander.
    """
    indices = {member.id: index for index, member in enumerate(members) if member in candidates}
    commanders = {member.id for member in members if member.standing == "commander"}
    test = SprtConfig(settings.promotion.gate_elo0, settings.promotion.gate_elo1)
    return {
        indices[gate.candidate_id]: gates.result(gate)
        for gate in gates.of_test(session, list(indices), test)
        if gate.actor == RULE or gate.champion_id in commanders
    }


def _title_gates(
    session: Session, settings: Settings, members: Sequence[Member], champion: int | None
) -> dict[int, GateResult]:
    """Return the results of the commanders' gates against the champion, by the commanders' indices."""
    indices = {member.id: index for index, member in enumerate(members) if member.standing == "commander"}
    test = SprtConfig(settings.promotion.gate_elo0, settings.promotion.gate_elo1)
    return {
        indices[gate.candidate_id]: gates.result(gate)
        for gate in gates.of_test(session, list(indices), test)
        if gate.champion_id == champion
    }
