"""Behaviour profiles of frozen players, up to the last rating period."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from arena import fingerprint as arithmetic
from arena.fingerprint import Samples
from league import wire
from league.db.bulk_insert import among
from league.db.models import Fingerprint, Player
from league.errors import InvalidRequestError
from league.services.player_names import display_name
from league.services.ratings import rated_players

_DIGITS = 6  # of a number


@dataclass(frozen=True, eq=False)
class Prints:
    """Fingerprints of P players, in their order, by F measures in alphabetical order."""

    measures: Sequence[str]
    samples: Samples
    estimates: arithmetic.Fingerprints


def read(session: Session, players: Sequence[int]) -> Prints | None:
    """Return the fingerprints of players, judged among each other; None where nothing of any was measured."""
    columns = Fingerprint.player_id, Fingerprint.measure, Fingerprint.matches, Fingerprint.total, Fingerprint.squares
    rows = session.execute(select(*columns).where(among(session, Fingerprint.player_id, players))).all()
    if not rows:
        return None
    measures = sorted({row.measure for row in rows})
    row_of = {player: place for place, player in enumerate(players)}
    column_of = {measure: place for place, measure in enumerate(measures)}
    sums = np.zeros((3, len(players), len(measures)))
    for player, measure, *values in rows:
        sums[:, row_of[player], column_of[measure]] = values
    samples = Samples(*sums)
    return Prints(measures, samples, arithmetic.fingerprints(samples))


def show(session: Session, player_id: int, limit: int) -> wire.Fingerprint:
    """Show how a player plays, beside the frozen players in play that it could meet, and which are most like it.

    Raises:
        UnknownPlayerError: There is no such player.
    """
    player, _ = rated_players.require(session, player_id)
    others = _peers(session, player)
    return _body(session, player, others, others, limit)


def beside(session: Session, player_id: int, other_id: int) -> wire.Fingerprint:
    """Show how a player plays, and how far from it another one does, in play or not.

    Raises:
        UnknownPlayerError: There is no such player.
        InvalidRequestError: The two cannot meet.
    """
    player, other = (rated_players.require(session, each)[0] for each in (player_id, other_id))
    if (player.environment, player.signature) != (other.environment, other.signature):
        rule = f"it plays {other.environment} ({other.signature}), and {player.name} {player.environment}"
        raise InvalidRequestError(f"other={other_id}", f"{rule} ({player.signature})", "name one that it could meet")
    return _body(session, player, _peers(session, player), [other], 1)


def _body(
    session: Session, player: Player, peers: Sequence[Player], compared: Sequence[Player], limit: int
) -> wire.Fingerprint:
    everybody = list(dict.fromkeys([player, *peers, *compared]))
    prints = read(session, [each.id for each in everybody])
    return wire.Fingerprint(
        player=_name(player),
        environment=player.environment,
        players=len(peers),
        measures=[] if prints is None else _measures(prints),
        nearest=[] if prints is None else _nearest(prints, everybody, compared, limit),
    )


def _peers(session: Session, player: Player) -> Sequence[Player]:
    same = Player.environment == player.environment, Player.signature == player.signature
    frozen = Player.kind != "learner", Player.id != player.id, rated_players.in_play()
    return session.scalars(select(Player).where(*same, *frozen).order_by(Player.id)).all()


def _measures(prints: Prints) -> list[wire.MeasuredBehaviour]:
    """Describe the first of the players, measure by measure."""
    estimates, matches = prints.estimates, prints.samples.matches[0]
    above = estimates.standing(0)
    return [
        wire.MeasuredBehaviour(
            name=name,
            matches=int(matches[place]),
            mean=_known(estimates.mean[0, place]),
            error=_known(np.sqrt(estimates.noise[0, place])),
            everybody=_known(estimates.centre[place]),
            spread=float(round(estimates.spread[place], _DIGITS)),
            standing=_known(above[place]),
        )
        for place, name in enumerate(prints.measures)
    ]


def _nearest(
    prints: Prints, everybody: Sequence[Player], compared: Sequence[Player], limit: int
) -> list[wire.Likeness]:
    """Name those that are nearest to the first of everybody, as far as they are known."""
    found = arithmetic.apart(prints.estimates, 0, [everybody.index(each) for each in compared])
    order = np.argsort(found.distance, kind="stable")
    return [
        wire.Likeness(
            player=_name(compared[place]),
            distance=round(float(found.distance[place]), _DIGITS),
            bound=round(float(found.bound[place]), _DIGITS),
            measures=int(found.values[place]),
        )
        for place in order[: int((found.values > 0).sum())][:limit].tolist()
    ]


def _known(value: float) -> float | None:
    return round(float(value), _DIGITS) if np.isfinite(value) else None


def _name(player: Player) -> wire.PlayerName:
    return wire.PlayerName(player_id=player.id, name=display_name(player))
