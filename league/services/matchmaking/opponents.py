"""Opponent distributions: PFSP, self-play and the branches of exploiters, drawn from, explained and stored."""

import hashlib
import logging
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json
from sqlalchemy import bindparam, select, update
from sqlalchemy.orm import Session

from arena.matchmaking import (
    Branch,
    Candidates,
    Distribution,
    MatchmakingConfig,
    effective_opponents,
    opponent_distribution,
)
from arena.roles import MainExploiter, Opposition, RoleRules, role_distribution, without_self_play
from league import wire
from league.db.bulk_insert import among
from league.db.models import Draw, Player
from league.db.upsert import insert_into
from league.errors import ConfigurationError, InvalidRequestError
from league.services.population import roles, rule_inputs
from league.services.population.cache import Filter, Member, Population, PopulationCache
from league.services.population.roles import LearnerRole
from league.settings import Settings

SELF_PLAY = "self-play"
PAIRING = "thompson"
"""Branch of rating leases."""
ENTRY = "entry"
"""Branch of rating leases of one external player."""

_PAIRING_RULE = "neighbours in a Thompson sample of the ratings, strangers sooner, those with the fewest games first"
_PRUNED_AT = select(Draw.pruned_at).where(Draw.id == bindparam("id")).with_for_update(read=True)
_CORRECT_THE_RULE = "correct the rule, or set LEAGUE_MATCHMAKING__WEIGHTING and __MIXTURE to others and start again"
_HASH_DIGITS = 32
_DIGITS = 8  # of a probability

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class DrawRecord:
    """What a distribution is made of, as it is stored and shown.

    Attributes:
        id: Hash of the content.
        content: JSON: `learner`, `branches`, `self_play` and `filters` as on the wire, `items` by columns.
    """

    id: str
    content: Mapping[str, Any]

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "DrawRecord":
        """Name a content by its hash."""
        return cls(hashlib.sha256(to_json(content)).hexdigest()[:_HASH_DIGITS], content)

    def rule(self, branch: str) -> str:
        """Say a branch's rule in words."""
        return next((str(each["rule"]) for each in self.content["branches"] if each["name"] == branch), "")


@dataclass(frozen=True, eq=False)
class LearnerDraw:
    """What a learner's next opponents are drawn from.

    Attributes:
        opponents: Ids of the K candidates.
        distribution: Over the K candidates and self-play.
        account: How it came about.
    """

    opponents: tuple[int, ...]
    distribution: Distribution
    account: DrawRecord


@dataclass(frozen=True, eq=False)
class _Pool:
    """Who may be drawn, as accounts show them: made once for all learners of a signature.

    Attributes:
        places: (K,) in the population.
        filters: What took out the others.
        ids: K ids.
        columns: What items show of each whoever the learner is, K values by name.
        groups: Places within the K, by the name of the group.
    """

    places: NDArray[np.int64]
    filters: tuple[Filter, ...]
    ids: tuple[int, ...]
    columns: Mapping[str, Any]
    groups: Mapping[str, NDArray[np.int64]]

    @classmethod
    def of(cls, population: Population, places: NDArray[np.int64], filters: Sequence[Filter]) -> "_Pool":
        ids: list[int] = population.ids[places].tolist()
        columns = {
            "player_id": ids,
            "rating": _rounded(population.ratings.rating[places], 1),
            "deviation": _rounded(population.ratings.deviation[places], 1),
        }
        groups = _grouped([population.members[place] for place in places])
        return cls(places, tuple(filters), tuple(ids), columns, groups)

    def items(self, games: NDArray[np.int64]) -> dict[str, Any]:
        """Return the columns of an account's items, given the number of games of each."""
        return {**self.columns, "games": games.tolist()}


def of_learner(
    session: Session,
    population: Population,
    settings: Settings,
    player_id: int,
    *,
    self_play: bool = True,
    unplayable: frozenset[int] = frozenset(),
) -> LearnerDraw:
    """Return the distribution of a learner's next opponent.

    Args:
        session: Reads the learner's records, once per population.
        population: Of the learner's environment.
        settings: Has the matchmaking rule.
        player_id: The learner.
        self_play: With the league's share of self-play or, as far as there is anybody else, with none.
        unplayable: Ids of players that who asks could not play.

    Raises:
        UnknownPlayerError: The population has no such player.
        InvalidRequestError: The player is not a learner.
    """
    member = learner(population, player_id)
    return population.cached(
        _key(player_id, self_play, unplayable),
        lambda: _of_learner(session, population, settings, member, self_play=self_play, unplayable=unplayable),
    )


def known(population: Population, player_id: int, *, self_play: bool, unplayable: frozenset[int]) -> LearnerDraw | None:
    """Return what `of_learner` has made before; None where it has not."""
    return population.peek(_key(player_id, self_play, unplayable))


def _key(player_id: int, self_play: bool, unplayable: frozenset[int]) -> Hashable:
    return "learner", player_id, self_play, unplayable


def learner(population: Population, player_id: int) -> Member:
    """Return the learner of a population that has this id.

    Raises:
        UnknownPlayerError: The population has no such player.
        InvalidRequestError: The player is not a learner.
    """
    member = population.members[population.place(player_id)]
    if member.kind != "learner":
        rule = f"{member.name} is a {member.kind}; opponents are drawn for learners"
        raise InvalidRequestError(f"player {player_id}", rule, "pass a learner's player_id, as POST /learners gave it")
    return member


def preview(session: Session, settings: Settings, cache: PopulationCache, player_id: int) -> wire.Preview:
    """Show the distribution that a learner's next lease is drawn from.

    Raises:
        UnknownPlayerError: There is no such player.
        InvalidRequestError: It is not a learner.
    """
    population = cache.of_player(session, player_id)
    drawn = of_learner(session, population, settings, player_id)
    return wire.Preview.model_validate(
        {"player_id": player_id, "environment": population.environment, **shown(session, drawn.account)}
    )


def of_pairing(
    population: Population, signature: str, unplayable: frozenset[int]
) -> tuple[NDArray[np.int64], DrawRecord]:
    """Return the places of the players that rating pairs of a signature are sampled from, and the account of it."""
    return population.cached(("pairing", signature, unplayable), lambda: _of_pairing(population, signature, unplayable))


def of_entry(population: Population, player: int, unplayable: frozenset[int]) -> tuple[NDArray[np.int64], DrawRecord]:
    """Return the places of whom an external player may meet, given its own place, and the account of it."""

    def make() -> tuple[NDArray[np.int64], DrawRecord]:
        member = population.members[player]
        places, filters = population.opponents(member.signature, unplayable)
        rule = f"neighbours of {member.name} in a Thompson sample of the ratings, strangers sooner"
        return places, between(population, places, filters, ENTRY, rule)

    return population.cached(("entry", player, unplayable), make)


def between(
    population: Population, places: NDArray[np.int64], filters: Sequence[Filter], name: str, rule: str
) -> DrawRecord:
    """Return the account of frozen players who are paired by a rule that gives no probabilities in closed form."""
    pool, unknown = _Pool.of(population, places, filters), [None] * places.size
    branch = {
        "name": name,
        "share": 1.0,
        "rule": rule,
        "opponents": places.size,
        "effective_opponents": None,
        "groups": _shares(pool.groups, None),
    }
    content = {
        "self_play": 0.0,
        "branches": [branch],
        "filters": _stored(filters),
        "items": pool.items(population.games[places]) | {"propensity": unknown, "win_rate": unknown, "weights": {}},
    }
    return DrawRecord.of(content)


def keep(session: Session, account: DrawRecord, now: datetime) -> None:
    """Store a distribution, once; one that was pruned meanwhile gets its opponents back.

    Nobody prunes it until the transaction ends, which is to hold a lease that was drawn from it.
    """
    stored = session.execute(_PRUNED_AT, {"id": account.id}).one_or_none()
    if stored is None:
        row = {"id": account.id, "distribution": account.content, "created_at": now}
        session.execute(insert_into(session, Draw).values(row).on_conflict_do_nothing())
    elif stored.pruned_at is not None:
        session.execute(update(Draw).where(Draw.id == account.id).values(distribution=account.content, pruned_at=None))


def kept(session: Session, draw_id: str) -> DrawRecord:
    """Return a stored distribution."""
    content = session.scalars(select(Draw.distribution).where(Draw.id == draw_id)).one()
    return DrawRecord(draw_id, _in_today_s_form(content))


def shown(session: Session, account: DrawRecord) -> dict[str, Any]:
    """Return the wire fields of a distribution."""
    columns = account.content["items"]
    ids = columns["player_id"]
    names = dict(session.execute(select(Player.id, Player.name).where(among(session, Player.id, ids))).all())
    plain = {name: values for name, values in columns.items() if name != "weights"}
    rows = [dict(zip(plain, values, strict=True)) for values in zip(*plain.values(), strict=True)]
    for place, row in enumerate(rows):
        row["name"] = names[row["player_id"]]
        row["weights"] = {branch: weights[place] for branch, weights in columns["weights"].items()}
    return {**account.content, "items": rows}


def _of_learner(
    session: Session,
    population: Population,
    settings: Settings,
    member: Member,
    *,
    self_play: bool,
    unplayable: frozenset[int],
) -> LearnerDraw:
    pool = population.cached(
        ("pool", member.signature, unplayable),
        lambda: _Pool.of(population, *population.opponents(member.signature, unplayable)),
    )
    opponents, filters, own = pool.places, pool.filters, population.place(member.id)
    lineage = roles.lineage(session, population, settings, member)
    standing = roles.standing(session, population, settings, lineage, opponents)
    rating, games = float(population.ratings.rating[own]), int(population.games[own])
    needs, past_games = lineage.needs(games), settings.matchmaking.past_games
    known = rule_inputs.gather(session, population, needs, member.id, opponents, past_games)
    candidates = Candidates(
        learner_rating=rating,
        learner_games=games,
        ratings=population.ratings.rating[opponents],
        win_rates=standing.win_rates,
        between=known.between,
        pasts=known.pasts,
        lineage=standing.against.lineage,
    )
    distribution, failures = _by_role(standing.against, candidates, lineage.rules)
    filters += _contradiction(lineage) + failures
    if not self_play:
        distribution = without_self_play(distribution)
        filters += (Filter(SELF_PLAY, "none was asked for: the trainer has its own", (member.id,)),)
    for branch in distribution.branches:
        if branch.filter:
            removed = tuple(population.ids[opponents[branch.excluded]].tolist())
            filters += (Filter(branch.name, branch.filter, removed),)
    items = pool.items(standing.matches) | known.columns()
    items["propensity"] = _rounded(distribution.probabilities, _DIGITS)
    items["win_rate"] = _rounded(standing.win_rates, _DIGITS)
    items["weights"] = {branch.name: _rounded(branch.weights, _DIGITS) for branch in distribution.branches}
    content = {
        "learner": {"player_id": member.id, "rating": round(rating, 1), "games": games},
        "self_play": distribution.self_play,
        "branches": [_self_play(distribution), *(_branch(branch, pool.groups) for branch in distribution.branches)],
        "filters": _stored(filters),
        "items": items,
    }
    return LearnerDraw(pool.ids, distribution, DrawRecord.of(content))


def weighed(candidates: Candidates, config: MatchmakingConfig) -> Distribution:
    """Return the distribution of a learner's next opponent.

    Raises:
        ConfigurationError: A rule of the configuration failed.
    """
    try:
        return opponent_distribution(candidates, config)
    except ValueError as error:
        raise ConfigurationError("of matchmaking", str(error), _CORRECT_THE_RULE) from error


def _by_role(against: Opposition, candidates: Candidates, rules: RoleRules) -> tuple[Distribution, tuple[Filter, ...]]:
    """Return a role's distribution; a configured rule that fails is replaced by the default one, which is then told."""
    try:
        return role_distribution(against, candidates, rules), ()
    except ValueError as error:
        if isinstance(rules, MainExploiter):  # it follows no configured rule
            raise
        standing_in = MatchmakingConfig.weighting
        log.error("%s; %r stands in for it. %s", error, standing_in, _CORRECT_THE_RULE)  # noqa: TRY400 - no defect of ours
        default = replace(rules.matchmaking, weighting=standing_in, mixture=())
        told = Filter("failed rule", f"{error}; {standing_in!r} stands in for it", ())
        return role_distribution(against, candidates, replace(rules, matchmaking=default)), (told,)


def _contradiction(lineage: LearnerRole) -> tuple[Filter, ...]:
    """Tell that a learner's own numbers contradict the league's."""
    if not lineage.failure:
        return ()
    return (Filter("failed rule", f"{lineage.failure}; the numbers of a {lineage.member.role} stand in", ()),)


def _of_pairing(
    population: Population, signature: str, unplayable: frozenset[int]
) -> tuple[NDArray[np.int64], DrawRecord]:
    places, filters = population.opponents(signature, unplayable)
    return places, between(population, places, filters, PAIRING, _PAIRING_RULE)


def _self_play(distribution: Distribution) -> dict[str, Any]:
    return {
        "name": SELF_PLAY,
        "share": distribution.self_play,
        "rule": "the learner itself",
        "opponents": 1,
        "effective_opponents": 1.0,
        "groups": [],
    }


def _branch(branch: Branch, groups: Mapping[str, NDArray[np.int64]]) -> dict[str, Any]:
    return {
        "name": branch.name,
        "share": branch.share,
        "rule": branch.rule,
        "opponents": int(np.count_nonzero(~branch.excluded)),
        "effective_opponents": round(effective_opponents(branch.weights), 2),
        "groups": _shares(groups, branch.weights),
    }


def _grouped(members: Sequence[Member]) -> dict[str, NDArray[np.int64]]:
    """Return the places of groups: by standing, role and age, so that crowding shows."""
    snapshots = [place for place, member in enumerate(members) if member.kind == "snapshot"]
    groups = {
        "baselines": [place for place, member in enumerate(members) if member.kind == "baseline"],
        "commanders": [place for place in snapshots if members[place].standing == "commander"],
        "candidates": [place for place in snapshots if members[place].standing == "candidate"],
        "snapshots of mains": [place for place in snapshots if members[place].role == "main"],
        "snapshots of exploiters": [place for place in snapshots if members[place].role in roles.EXPLOITERS],
        "older half of the snapshots": snapshots[: len(snapshots) // 2],
    }
    return {name: np.array(places, dtype=np.int64) for name, places in groups.items()}


def _shares(groups: Mapping[str, NDArray[np.int64]], weights: NDArray[np.float64] | None) -> list[dict[str, Any]]:
    """Say upon whom weight falls."""
    return [
        {
            "group": group,
            "players": places.size,
            "share": None if weights is None else round(float(weights[places].sum()), _DIGITS),
        }
        for group, places in groups.items()
    ]


def _stored(filters: Sequence[Filter]) -> list[dict[str, Any]]:
    """Return filters as JSON; `asdict` would copy every id that they took out."""
    return [{"name": each.name, "rule": each.rule, "removed": each.removed} for each in filters]


def _rounded(values: NDArray[np.float64], digits: int) -> list[float]:
    rounded: list[float] = np.round(values, digits).tolist()
    return rounded


def _in_today_s_form(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read what version 0.1 stored: shares by name, filters in words, and no weights."""
    if not isinstance(content["branches"], Mapping):
        return content
    branch = {"rule": "", "opponents": len(content["items"]["player_id"]), "effective_opponents": None, "groups": []}
    named = (rule.partition(": ") for rule in content["filters"])
    return {
        **content,
        "branches": [{"name": name, "share": share, **branch} for name, share in content["branches"].items()],
        "filters": [{"name": name, "rule": rule or name, "removed": []} for name, _, rule in named],
        "items": content["items"] | {"weights": {}},
    }
