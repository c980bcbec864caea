"""Lineage of a player: its parents up to the first snapshot, each with its gates."""

from datetime import datetime

from sqlalchemy import func, literal, select
from sqlalchemy.orm import Session

from league import wire
from league.db.models import Player, SnapshotDecision
from league.lineage_svg import Descent
from league.pagination import Page
from league.services.audit import log as audit_log
from league.services.gates import service as gates
from league.services.lifecycle import champions, transitions
from league.services.population import learners
from league.services.ratings import rated_players
from league.settings import Settings


def list_ancestors(
    session: Session, settings: Settings, player_id: int, limit: int, cursor: int, now: datetime
) -> Page[wire.Ancestor]:
    """List a player and its parents, after the given generation; a learner's parent is its newest snapshot.

    Raises:
        UnknownPlayerError: There is no such player.
    """
    found = Page.at(_generations(session, player_id), cursor, limit)
    players = {
        one.id: one
        for one in rated_players.shown(
            session, settings, session.execute(rated_players.rated().where(Player.id.in_(found.items))).all()
        )
    }
    candidate_gates = gates.of_candidates(session, settings, found.items, now)
    ancestors = [
        wire.Ancestor(
            generation=generation,
            player=players[each],
            gates=[gate for gate in candidate_gates if gate.candidate.player_id == each],
        )
        for generation, each in enumerate(found.items, start=cursor + 1)
    ]
    return Page(ancestors, found.next_cursor)


def get_descent(session: Session, settings: Settings, learner_id: int, most: int) -> Descent | None:
    """Return the data to draw a learner's newest snapshots, at most `most`; None without any.

    Raises:
        UnknownLearnerError: There is no such learner.
    """
    learner = learners.show(session, settings, learners.require(session, learner_id))
    of_learner = Player.learner_id == learner_id, Player.kind == "snapshot"
    query = rated_players.rated().where(*of_learner).order_by(Player.step.desc(), Player.id.desc()).limit(most)
    rows = session.execute(query).all()
    snapshots = rated_players.shown(session, settings, rows[::-1])
    if not snapshots:
        return None
    changes = audit_log.list_player_events(session, [one.id for one in snapshots], list(transitions.TRANSITIONS))
    resets = SnapshotDecision.learner_id == learner_id, SnapshotDecision.reset
    shown = SnapshotDecision.step >= (snapshots[0].step or 0)
    return Descent(
        learner=learner,
        snapshots=snapshots,
        resets=list(
            session.scalars(select(SnapshotDecision.step).where(*resets, shown).order_by(SnapshotDecision.step))
        ),
        champion=champions.champion_id(session, learner.environment),
        changes={
            player_id: [wire.Event.model_validate(each, from_attributes=True) for each in events]
            for player_id, events in changes.items()
        },
    )


def _generations(session: Session, player_id: int) -> list[int]:
    """Return the ids of a player and its parents, starting with the player."""
    player, _ = rated_players.require(session, player_id)
    if player.kind != "learner":
        return _up_from(session, player_id)
    of_learner = Player.learner_id == player.learner_id, Player.kind == "snapshot"
    newest = session.scalar(select(func.max(Player.id)).where(*of_learner))
    return [player_id] if newest is None else [player_id, *_up_from(session, newest)]


def _up_from(session: Session, player_id: int) -> list[int]:
    line = select(Player.id, Player.parent_id, literal(1).label("generation")).where(Player.id == player_id)
    below = line.cte("line", recursive=True)
    parents = select(Player.id, Player.parent_id, below.c.generation + 1).join(below, Player.id == below.c.parent_id)
    # One recursive query instead of one query per generation.
    whole = below.union_all(parents)
    return list(session.scalars(select(whole.c.id).order_by(whole.c.generation)))
