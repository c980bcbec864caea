"""Redundancy: snapshots that score and play like another one."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy.orm import Session

from arena.evaluation.redundancy import RedundancyConfig, Redundant, redundant
from arena.ratings.glicko2 import Ratings, conservative
from league import wire
from league.player_names import display_name
from league.services.environments import lookup as environments
from league.services.lifecycle import champions
from league.services.matches import pair_records
from league.services.population import cache as population_cache
from league.services.population.cache import Member, Population
from league.services.promotion import behaviour_profiles
from league.services.ratings import rated_players
from league.settings import Settings


@dataclass(frozen=True)
class RedundantSnapshot:
    """A redundant snapshot, its representative and their similarity."""

    player: Member
    representative: Member
    measured: Redundant

    def words(self) -> str:
        """Return the reason for the retirement."""
        measured = self.measured
        scores = f"scores like it, within {measured.win_rate_bound:.3f} over {measured.opponents} opponents"
        plays = f"plays like it, within {measured.fingerprint_bound:.2f} sd over {measured.measures} measures"
        known = f"{scores}, {plays}" if measured.measures else f"{scores} (no behaviour measurements)"
        return f"{display_name(self.representative)} {known}, and is no weaker"


def list_redundant(session: Session, settings: Settings, environment: str | None) -> list[wire.Redundancy]:
    """List the redundant snapshots of one or all environments, most similar first.

    Raises:
        UnknownEnvironmentError: The environment does not exist.
    """
    environments.require_known(session, environment)
    chosen = environments.names(session) if environment is None else [environment]
    return [
        wire.Redundancy.model_validate(
            {
                "environment": each,
                "player": _name(snapshot.player),
                "standing": snapshot.player.standing,
                "representative": _name(snapshot.representative),
                "distance": snapshot.measured.win_rate_distance,
                "bound": snapshot.measured.win_rate_bound,
                "opponents": snapshot.measured.opponents,
                "behaviour": _likeness(snapshot),
            }
        )
        for each in chosen
        for snapshot in find(session, settings, population_cache.load(session, each))
    ]


def find(session: Session, settings: Settings, population: Population) -> list[RedundantSnapshot]:
    """Return the redundant snapshots per signature, most similar first."""
    champion = champions.champion_id(session, population.environment)
    found: list[RedundantSnapshot] = []
    for signature in sorted({member.signature for member in population.members}):
        indices = [index for index, member in enumerate(population.members) if _in_play(member, signature)]
        if indices:
            found += _among(session, settings, population, indices, champion)
    return sorted(found, key=lambda each: (each.measured.win_rate_bound, each.player.id))


def _among(
    session: Session, settings: Settings, population: Population, indices: Sequence[int], champion: int | None
) -> list[RedundantSnapshot]:
    members = [population.members[index] for index in indices]
    counts, _ = pair_records.matrix(
        pair_records.read(session, population.environment), [member.id for member in members]
    )
    ratings = population.ratings
    strength = conservative(
        Ratings(*(column[indices] for column in (ratings.rating, ratings.deviation, ratings.volatility)))
    )
    few = population.games[indices] < settings.promotion.least_games
    bound = _newest(members) | {champion}
    protected = np.array([member.kind == "baseline" or member.id in bound for member in members]) | few
    config = RedundancyConfig(
        win_rate_distance=settings.redundancy_distance,
        fingerprint_distance=settings.redundancy_behaviour,
        least_opponents=settings.redundancy_opponents,
    )
    profiles = behaviour_profiles.read(session, population, [member.id for member in members])
    behaviour = None if profiles is None else profiles.estimates
    return [
        RedundantSnapshot(members[each.player], members[each.representative], each)
        for each in redundant(counts, strength, config, keep=protected, fingerprints=behaviour)
    ]


def _newest(members: Sequence[Member]) -> set[int | None]:
    """Return the ids of each learner's newest snapshot, which represents the learner as an opponent."""
    by_age = sorted((member for member in members if member.kind == "snapshot"), key=lambda each: each.step or 0)
    return set({member.learner_id: member.id for member in by_age}.values())


def _likeness(snapshot: RedundantSnapshot) -> wire.Likeness | None:
    """Return the distance in behaviour, or None if it is unknown."""
    measured = snapshot.measured
    if not measured.measures:
        return None
    return wire.Likeness(
        player=_name(snapshot.representative),
        distance=measured.fingerprint_distance,
        bound=measured.fingerprint_bound,
        measures=measured.measures,
    )


def _in_play(member: Member, signature: str) -> bool:
    return (
        member.kind in ("snapshot", "baseline")
        and member.signature == signature
        and member.standing not in rated_players.OUT_OF_PLAY
    )


def _name(member: Member) -> wire.PlayerName:
    return wire.PlayerName(player_id=member.id, name=display_name(member))
