"""The rules of promotion, retirement and succession, applied to the league after each period."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Row
from sqlalchemy.orm import Session

from arena import payoff as arithmetic
from arena import promotion as rule
from arena.glicko2 import expected_score
from arena.promotion import Decision, Record, Roster
from league.config import Settings
from league.db.models import Player, Rating
from league.services import champions, lifecycle, payoffs, standings

ACTOR = "rule"


def apply(session: Session, settings: Settings, environment: str, now: datetime) -> None:
    """Promote and retire snapshots as the rules say, within each signature of the environment; see to a champion.

    Players of different signatures cannot meet, so that the champion is one of those who play the newest.
    """
    query = standings.rated().where(Player.environment == environment, Player.kind != "learner", standings.in_play())
    frozen = session.execute(query.order_by(Player.id)).all()
    if not frozen:
        return
    champion = champions.holder(session, environment)
    newest_signature = frozen[-1][0].signature
    for signature in sorted({player.signature for player, _ in frozen}):
        same = [row for row in frozen if row[0].signature == signature]
        ids = [player.id for player, _ in same]
        roster = _promote(session, settings, _roster(session, same, champion), ids, now)
        if signature == newest_signature:
            roster = _crown(session, settings, roster, ids, champion, now)
        for decision in rule.retirements(roster, settings.promotion):
            _change(session, settings, ids, "retire", decision, now)


def _promote(session: Session, settings: Settings, roster: Roster, ids: list[int], now: datetime) -> Roster:
    promoted = [decision for decision in rule.promotions(roster, settings.promotion) if decision.approved]
    for decision in promoted:
        _change(session, settings, ids, "promote", decision, now)
    raised = _mask(promoted, len(ids))
    return replace(roster, candidate=roster.candidate & ~raised, commander=roster.commander | raised)


def _crown(
    session: Session, settings: Settings, roster: Roster, ids: list[int], champion: int | None, now: datetime
) -> Roster:
    decision = rule.succession(roster, settings.promotion)
    if decision is None or not decision.approved:
        return roster
    player = ids[decision.player]
    lifecycle.crown(session, player, expected=champion, actor=ACTOR, reason=decision.reason, now=now)
    return replace(roster, champion=_mask([decision], len(ids)))


def _change(
    session: Session, settings: Settings, ids: list[int], name: lifecycle.Change, decision: Decision, now: datetime
) -> None:
    lifecycle.change(session, settings, ids[decision.player], name, actor=ACTOR, reason=decision.reason, now=now)


def _mask(decisions: Sequence[Decision], players: int) -> NDArray[np.bool_]:
    chosen = np.zeros(players, dtype=np.bool_)
    chosen[[decision.player for decision in decisions]] = True
    return chosen


def _roster(session: Session, frozen: "Sequence[Row[Player, Rating]]", champion: int | None) -> Roster:
    ratings = standings.ratings(frozen)
    ids = [player.id for player, _ in frozen]

    def record(player: int, others: Sequence[int]) -> Record:
        own = payoffs.of_player(session, ids[player])
        tally, _ = payoffs.against(own, ids[player], [ids[other] for other in others])
        expected = expected_score(ratings, np.full(len(others), player), np.array(others))
        return Record(arithmetic.win_rates(tally, expected), tally.games)

    return Roster(
        names=tuple(player.call_sign or player.name for player, _ in frozen),
        ratings=ratings,
        games=np.array([0 if rating is None else rating.games for _, rating in frozen], dtype=np.int64),
        candidate=np.array([player.standing == "candidate" for player, _ in frozen], dtype=np.bool_),
        commander=np.array([player.standing == "commander" for player, _ in frozen], dtype=np.bool_),
        champion=np.array([player.id == champion for player, _ in frozen], dtype=np.bool_),
        baseline=np.array([player.kind == "baseline" for player, _ in frozen], dtype=np.bool_),
        record=record,
    )
