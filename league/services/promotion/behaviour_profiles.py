"""Behaviour profiles of players: means over their newest matches, computed on request."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select
from sqlalchemy.orm import Session

from arena.evaluation import behaviour_profiles as arithmetic
from arena.evaluation.behaviour_profiles import Samples
from league import wire
from league.db.models import Behaviour, Match, MeasureSet, Player
from league.errors import InvalidRequestError
from league.player_names import display_name
from league.services.matches import behaviours, counting
from league.services.population.cache import Population, PopulationCache
from league.services.ratings import rated_players

RECENT = 500
"""Number of newest matches of a player in its profile."""

NEWEST = 20_000
"""Number of newest matches with behaviour, of the whole league, that are searched: 0.2 s of CPU."""

MEASURES_MAX = 256
"""Maximum number of measures in an environment's profiles, newest first, which bounds the cost."""

_DIGITS = 6  # decimal places of a number


@dataclass(frozen=True, eq=False)
class RecentBehaviour:
    """Sums over the newest matches of P players, by F measures.

    Attributes:
        rows: Row of each player, by id.
        measures: Names in alphabetical order.
        sums: (3, P, F) numbers of matches, sums of the values, and sums of their squares.
    """

    rows: Mapping[int, int]
    measures: Sequence[str]
    sums: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Profiles:
    """Behaviour profiles of P players by F measures in alphabetical order."""

    measures: Sequence[str]
    samples: Samples
    estimates: arithmetic.Fingerprints


def read(session: Session, population: Population, players: Sequence[int]) -> Profiles | None:
    """Return the behaviour profiles of players relative to each other; None without measurements."""
    recent = of_environment(session, population)
    sums = np.zeros((3, len(players), len(recent.measures)))
    known = [index for index, player in enumerate(players) if player in recent.rows]
    sums[:, known] = recent.sums[:, [recent.rows[players[index]] for index in known]]
    measured = np.flatnonzero(sums[0].any(axis=0)).tolist()
    if not measured:
        return None
    samples = Samples(*sums[:, :, measured])
    return Profiles([recent.measures[index] for index in measured], samples, arithmetic.fingerprints(samples))


def of_environment(session: Session, population: Population) -> RecentBehaviour:
    """Return the recent behaviour of an environment's players, read once per version of the population."""
    return population.cached("behaviour", lambda: _recent(session, population.environment))


def _recent(session: Session, environment: str) -> RecentBehaviour:
    newest = select(Behaviour.match_id).order_by(Behaviour.match_id.desc()).limit(NEWEST).subquery()
    columns = Match.home_id, Match.away_id, Behaviour.measure_set_id, Behaviour.home, Behaviour.away
    query = select(*columns).join(newest, newest.c.match_id == Match.id).join(Behaviour, Behaviour.match_id == Match.id)
    which = Match.environment == environment, *counting.counted(session)
    taken: Counter[int] = Counter()
    by_set: dict[str, tuple[list[int], list[bytes]]] = {}
    for home_id, away_id, set_id, *values in session.connection().execute(
        query.where(*which).order_by(Match.id.desc())
    ):
        ids, packed = by_set.setdefault(set_id, ([], []))
        for player, value in zip((home_id, away_id), values, strict=True):
            if taken[player] < RECENT:
                taken[player] += 1
                ids.append(player)
                packed.append(value)
    names = dict(session.execute(select(MeasureSet.id, MeasureSet.measures).where(MeasureSet.id.in_(by_set))).all())
    return _sums(taken, {tuple(names[set_id]): side for set_id, side in by_set.items()})


def _sums(
    players: Collection[int], by_measures: Mapping[tuple[str, ...], tuple[Sequence[int], Sequence[bytes]]]
) -> RecentBehaviour:
    """Sum sides of matches by player, for each set of measures."""
    known_names = dict.fromkeys(name for measures in by_measures for name in measures)
    names = sorted(list(known_names)[:MEASURES_MAX])
    rows = {player: row for row, player in enumerate(sorted(players))}
    sums = np.zeros((3, len(rows), len(names)))
    for measures, (ids, packed) in by_measures.items():
        values, player_rows = behaviours.unpack(packed), np.array([rows[player] for player in ids])
        known = ~np.isnan(values)
        # A missing measure adds zero to the sums, and `known` keeps it out of the number of matches.
        values = np.where(known, values, 0.0)
        for name, *columns in zip(measures, known.T, values.T, np.square(values).T, strict=True):
            if name in names:
                for total, column in zip(sums[:, :, names.index(name)], columns, strict=True):
                    total += np.bincount(player_rows, column, minlength=len(rows))
    return RecentBehaviour(rows, names, sums)


def show(session: Session, cache: PopulationCache, player_id: int, limit: int) -> wire.Fingerprint:
    """Return a player's profile compared with active frozen players of its signature, and the most similar ones.

    Raises:
        UnknownPlayerError: The player does not exist.
    """
    player, _ = rated_players.require(session, player_id)
    others = _peers(session, player)
    return _body(session, cache, player, others, others, limit)


def beside(session: Session, cache: PopulationCache, player_id: int, other_id: int) -> wire.Fingerprint:
    """Return a player's profile and its distance to another player, active or not.

    Raises:
        UnknownPlayerError: The player does not exist.
        InvalidRequestError: The players have different signatures.
    """
    player, other = (rated_players.require(session, each)[0] for each in (player_id, other_id))
    if (player.environment, player.signature) != (other.environment, other.signature):
        rule = f"it plays {other.environment} ({other.signature}), and {player.name} {player.environment}"
        raise InvalidRequestError(
            f"other={other_id}", f"{rule} ({player.signature})", "choose a player of the same environment and signature"
        )
    return _body(session, cache, player, _peers(session, player), [other], 1)


def _body(
    session: Session,
    cache: PopulationCache,
    player: Player,
    peers: Sequence[Player],
    compared: Sequence[Player],
    limit: int,
) -> wire.Fingerprint:
    all_players = list(dict.fromkeys([player, *peers, *compared]))
    profiles = read(session, cache.get(session, player.environment), [each.id for each in all_players])
    return wire.Fingerprint(
        player=_name(player),
        environment=player.environment,
        players=len(peers),
        measures=[] if profiles is None else _measures(profiles),
        nearest=[] if profiles is None else _nearest(profiles, all_players, compared, limit),
    )


def _peers(session: Session, player: Player) -> Sequence[Player]:
    same = Player.environment == player.environment, Player.signature == player.signature
    frozen = Player.kind != "learner", Player.id != player.id, rated_players.in_play()
    return session.scalars(select(Player).where(*same, *frozen).order_by(Player.id)).all()


def _measures(profiles: Profiles) -> list[wire.MeasuredBehaviour]:
    """Return the measures of the first player."""
    estimates, matches = profiles.estimates, profiles.samples.matches[0]
    z_scores = estimates.z_scores(0)
    return [
        wire.MeasuredBehaviour(
            name=name,
            matches=int(matches[index]),
            mean=_known(estimates.mean[0, index]),
            error=_known(np.sqrt(estimates.noise[0, index])),
            population_mean=_known(estimates.centre[index]),
            spread=float(round(estimates.spread[index], _DIGITS)),
            z_score=_known(z_scores[index]),
        )
        for index, name in enumerate(profiles.measures)
    ]


def _nearest(
    profiles: Profiles, all_players: Sequence[Player], compared: Sequence[Player], limit: int
) -> list[wire.Likeness]:
    """Return the players most similar to the first one, as far as their distances are known."""
    found = arithmetic.fingerprint_distances(profiles.estimates, 0, [all_players.index(each) for each in compared])
    order = np.argsort(found.distance, kind="stable")
    return [
        wire.Likeness(
            player=_name(compared[index]),
            distance=round(float(found.distance[index]), _DIGITS),
            bound=round(float(found.bound[index]), _DIGITS),
            measures=int(found.values[index]),
        )
        for index in order[: int((found.values > 0).sum())][:limit].tolist()
    ]


def _known(value: float) -> float | None:
    return round(float(value), _DIGITS) if np.isfinite(value) else None


def _name(player: Player) -> wire.PlayerName:
    return wire.PlayerName(player_id=player.id, name=display_name(player))
