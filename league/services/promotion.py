"""The rule of promotion and retirement, applied to the league after each period."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np
from sqlalchemy import Row
from sqlalchemy.orm import Session

from arena import payoff as arithmetic
from arena import promotion as rule
from arena.promotion import Decision, Roster
from league.config import Settings
from league.db.models import Player, Rating
from league.services import lifecycle, payoffs, standings

ACTOR = "rule"


def apply(session: Session, settings: Settings, environment: str, now: datetime) -> None:
    """Promote and retire snapshots as the rule says, within each signature of the environment."""
    query = standings.rated().where(Player.environment == environment, Player.kind != "learner", standings.in_play())
    frozen = session.execute(query.order_by(Player.id)).all()
    counts = payoffs.stored(session, environment)
    for signature in sorted({player.signature for player, _ in frozen}):
        same = [row for row in frozen if row[0].signature == signature]
        _apply(session, settings, _roster(same, counts), [player.id for player, _ in same], now)


def _apply(session: Session, settings: Settings, roster: Roster, ids: list[int], now: datetime) -> None:
    promoted = [decision for decision in rule.promotions(roster, settings.promotion) if decision.approved]
    raised = np.zeros(len(ids), dtype=np.bool_)
    raised[[decision.player for decision in promoted]] = True
    grown = replace(roster, candidate=roster.candidate & ~raised, commander=roster.commander | raised)
    retired = rule.retirements(grown, settings.promotion)
    changes: list[tuple[lifecycle.Change, Decision]] = [("promote", each) for each in promoted]
    changes += [("retire", each) for each in retired]
    for name, decision in changes:
        player = ids[decision.player]
        lifecycle.change(session, settings, player, name, actor=ACTOR, reason=decision.reason, now=now)


def _roster(frozen: "Sequence[Row[Player, Rating]]", counts: dict[payoffs.Pair, payoffs.Count]) -> Roster:
    ratings = standings.ratings(frozen)
    tally, _ = payoffs.matrix(counts, [player.id for player, _ in frozen])
    return Roster(
        names=tuple(player.call_sign or player.name for player, _ in frozen),
        ratings=ratings,
        games=np.array([0 if rating is None else rating.games for _, rating in frozen], dtype=np.int64),
        candidate=np.array([player.standing == "candidate" for player, _ in frozen], dtype=np.bool_),
        commander=np.array([player.standing == "commander" for player, _ in frozen], dtype=np.bool_),
        baseline=np.array([player.kind == "baseline" for player, _ in frozen], dtype=np.bool_),
        win_rate=arithmetic.win_rates(tally, arithmetic.expected_matrix(ratings)),
        pair_games=tally.games,
    )
