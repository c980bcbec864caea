"""Who becomes a commander, who the champion, and who retires, by rule and with the reason in words.

While places are free a candidate that is very probably better than the median frozen player, or than the champion,
takes one. When all are taken a candidate must outdo the weakest commander, stand its ground against every commander and
pass a gate, which is a sequential test that plays matches of its own (`arena.evaluation.sprt`); afterwards the weakest
beyond the capacity retire. Scripted baselines, the champion and players with few games never retire. The champion is a
commander; another one follows it where it is very probably the better of the two.

Each rule reads a roster and answers with decisions.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from arena.arrays import BoolArray, FloatArray, IntArray
from arena.evaluation.sprt import Decision as GateDecision
from arena.evaluation.sprt import SprtConfig
from arena.ratings.glicko2 import Ratings, conservative

GATES = ("off", "weakest", "champion")


@dataclass(frozen=True)
class PromotionConfig:
    """Rules of promotion and retirement.

    Attributes:
        capacity: How many commanders a league keeps, >= 1.
        superiority: Probability of being better than the median frozen player that suffices while places are free,
            in (0, 1).
        least_games: Rated games before a player is promoted or retired, >= 0.
        least_win_rate: Lowest win rate against any commander for a promotion beyond capacity, in [0, 1].
        least_pair_games: Effective games behind a win rate before it can refuse a promotion, >= 0.
        succession: Probability of being better than the champion that makes a commander follow it, and that suffices
            for a place that is free, in (0.5, 1).
        gate: Whom a candidate is tested against before it takes a place that is not free: the `weakest` commander, or
            the `champion` where there is one; `off` for no test.
        gate_elo0: Lead at which that test rejects, in points.
        gate_elo1: Lead at which it accepts, in points, > gate_elo0.
        gate_share: Share of the pairs of frozen players that such tests take while they are open, in (0, 1].

    Raises:
        ValueError: A value is out of its range.
    """

    capacity: int = 20
    superiority: float = 0.95
    least_games: int = 20
    least_win_rate: float = 0.45
    least_pair_games: float = 20.0
    succession: float = 0.99
    gate: Literal["off", "weakest", "champion"] = "weakest"
    gate_elo0: float = 0.0
    gate_elo1: float = 50.0
    gate_share: float = 0.5

    def __post_init__(self) -> None:
        if self.capacity < 1:
            raise ValueError(f"capacity is {self.capacity}: a league keeps at least one commander")
        if not 0.0 < self.superiority < 1.0:
            raise ValueError(f"superiority is {self.superiority}: it must be in (0, 1); 0.95 is typical")
        if not 0.5 < self.succession < 1.0:
            raise ValueError(f"succession is {self.succession}: it must be in (0.5, 1); 0.99 is typical")
        if not 0.0 <= self.least_win_rate <= 1.0:
            raise ValueError(f"least_win_rate is {self.least_win_rate}: a win rate must be in [0, 1]")
        if self.least_games < 0 or not self.least_pair_games >= 0.0:
            raise ValueError(
                f"least_games is {self.least_games} and least_pair_games {self.least_pair_games}: "
                "both must be 0 or more"
            )
        if self.gate not in GATES:
            raise ValueError(f"gate is {self.gate!r}: it must be one of {', '.join(GATES)}")
        if not 0.0 < self.gate_share <= 1.0:
            raise ValueError(f"gate_share is {self.gate_share}: it must be in (0, 1]; 0.5 is typical")
        SprtConfig(self.gate_elo0, self.gate_elo1)


@dataclass(frozen=True, eq=False)
class HeadToHead:
    """What a player has scored against K others.

    Attributes:
        win_rate: (K,) estimated win rates, see `arena.evaluation.payoff.win_rates`.
        games: (K,) effective games behind each.
    """

    win_rate: FloatArray
    games: FloatArray


@dataclass(frozen=True)
class GateResult:
    """What became of the gate of a candidate.

    Attributes:
        decision: Of the test, see `arena.evaluation.sprt.SprtState`.
        told: Where it stands, in words.
    """

    decision: GateDecision
    told: str


@dataclass(frozen=True, eq=False)
class Roster:
    """The frozen players of one environment, P of them.

    Attributes:
        names: P names that reasons are told in.
        ratings: Ratings of P players.
        games: (P,) int64 rated games of each.
        candidate: (P,) true for those who ask to become commanders.
        commander: (P,) true for those who are.
        champion: (P,) true for the commander who is the champion; nowhere where there is none.
        baseline: (P,) true for scripted players, which never retire.
        record: Looks up a player's record against others, by their indices in the roster. Few are asked about, so
            that a league of thousands needs no table of all pairs.
        gates: The gates that candidates were sent into by the rule, by index in the roster.

    Raises:
        ValueError: A column does not have one entry per player, somebody is both candidate and commander, or the
            champion is no commander or not alone.
    """

    names: tuple[str, ...]
    ratings: Ratings
    games: IntArray
    candidate: BoolArray
    commander: BoolArray
    champion: BoolArray
    baseline: BoolArray
    record: Callable[[int, Sequence[int]], HeadToHead]
    gates: Mapping[int, GateResult]

    def __post_init__(self) -> None:
        players = len(self.ratings)
        for name in ("games", "candidate", "commander", "champion", "baseline"):
            shape = getattr(self, name).shape
            if shape != (players,):
                raise ValueError(f"{name} has shape {shape}: with {players} players it must be {(players,)}")
        if len(self.names) != players:
            raise ValueError(f"{len(self.names)} names for {players} players: pass one name per player")
        both = np.flatnonzero(self.candidate & self.commander)
        if both.size:
            raise ValueError(f"{self.names[both[0]]} is candidate and commander: a snapshot has one standing")
        champions = np.flatnonzero(self.champion)
        if champions.size > 1 or (self.champion & ~self.commander).any():
            raise ValueError(f"{[self.names[each] for each in champions]}: the champion is one of the commanders")


@dataclass(frozen=True)
class Decision:
    """What a rule says about one player.

    Attributes:
        player: Index in the roster.
        approved: Whether the change of standing happens.
        reason: Why, with the figures, for the audit log.
    """

    player: int
    approved: bool
    reason: str


@dataclass(frozen=True)
class GateRequest(Decision):
    """A candidate that takes no place yet, but deserves a gate.

    Attributes:
        rival: Whom it is to be tested against, an index in the roster.
    """

    rival: int


def superiority(rating: float, deviation: float, opponent: float) -> float:
    """Return the probability that a player's strength is above a given rating.

        P(theta > m) = Phi((r - m) / RD),  theta ~ N(r, RD^2)

    Args:
        rating: r in points.
        deviation: RD in points, >= 0; at 0 the answer is 0, 0.5 or 1.
        opponent: m in points.
    """
    lead = rating - opponent
    if deviation == 0.0:
        return 0.5 + 0.5 * float(np.sign(lead))
    return 0.5 * math.erfc(-lead / (deviation * math.sqrt(2.0)))


def promotions(roster: Roster, config: PromotionConfig) -> tuple[Decision, ...]:
    """Judge every candidate, strongest conservative rating first; each promotion counts for the next in line.

    Args:
        roster: The frozen players as they stand.
        config: The rules.

    Returns:
        One decision per candidate in the order they were judged.
    """
    floor = conservative(roster.ratings)
    candidates = np.flatnonzero(roster.candidate)
    commanders = [int(player) for player in np.flatnonzero(roster.commander)]
    decisions = []
    for player in candidates[np.argsort(-floor[candidates], kind="stable")]:
        decision = _judge(int(player), commanders, roster, config)
        decisions.append(decision)
        if decision.approved:
            commanders.append(decision.player)
    return tuple(decisions)


def retirements(roster: Roster, config: PromotionConfig) -> tuple[Decision, ...]:
    """Choose who leaves while there are more commanders than places: worst conservative rating first.

    Baselines, the champion and commanders with few games stay, so that fewer may leave than are too many.

    Args:
        roster: The frozen players, promotions and succession applied.
        config: The rules.

    Returns:
        One approved decision per commander that retires, weakest first.
    """
    surplus = int(roster.commander.sum()) - config.capacity
    floor = conservative(roster.ratings)
    bound = roster.baseline | roster.champion | (roster.games < config.least_games)
    may_leave = np.flatnonzero(roster.commander & ~bound)
    leaving = may_leave[np.argsort(floor[may_leave], kind="stable")][: max(surplus, 0)]
    return tuple(
        Decision(
            player=int(player),
            approved=True,
            reason=f"{config.capacity + surplus} commanders for {config.capacity} places, "
            f"lowest conservative rating of those that may retire: {floor[player]:.0f}",
        )
        for player in leaving
    )


def succession(roster: Roster, config: PromotionConfig) -> Decision | None:
    """Choose the next champion: of the commanders with enough games, the one of highest conservative rating.

        P(challenger better than champion) = Phi((r1 - r2) / sqrt(RD1^2 + RD2^2))

    Where there is no champion, it becomes one. Where there is one, it follows only if this probability reaches
    `config.succession`: looked at after every rating period, a lead that noise may make would soon be crossed.

    Args:
        roster: The frozen players, promotions applied.
        config: The rules.

    Returns:
        The decision about the commander that comes closest; None where there is nobody but the champion.
    """
    floor = conservative(roster.ratings)
    ready = np.flatnonzero(roster.commander & ~roster.champion & (roster.games >= config.least_games))
    if not ready.size:
        return None
    player = int(ready[np.argmax(floor[ready])])
    champions = np.flatnonzero(roster.champion)
    if not champions.size:
        reason = f"there was no champion; highest conservative rating of all commanders: {floor[player]:.0f}"
        return Decision(player, approved=True, reason=reason)
    return _judge_against_champion(player, int(champions[0]), roster, config)


def _judge_against_champion(player: int, champion: int, roster: Roster, config: PromotionConfig) -> Decision:
    rating, deviation = roster.ratings.rating, roster.ratings.deviation
    joint = math.hypot(float(deviation[player]), float(deviation[champion]))
    chance = superiority(float(rating[player]), joint, float(rating[champion]))
    rival = f"the champion {roster.names[champion]} at {rating[champion]:.0f}"
    return _judge_by_chance(player, rival, chance, config.succession)


def _judge_by_chance(player: int, rival: str, chance: float, least: float) -> Decision:
    """Approve whoever is better than a rival with at least so much probability."""
    approved = chance >= least
    compared = "at least" if approved else "under"
    return Decision(player, approved=approved, reason=f"P(better than {rival}) is {chance:.3f}, {compared} {least:g}")


def _judge(player: int, commanders: list[int], roster: Roster, config: PromotionConfig) -> Decision:
    games = int(roster.games[player])
    if games < config.least_games:
        return Decision(player, approved=False, reason=f"{games} of the {config.least_games} required games")
    if len(commanders) < config.capacity:
        return _judge_for_free_place(player, len(commanders), roster, config)
    return _judge_against_commanders(player, commanders, roster, config)


def _judge_for_free_place(player: int, taken: int, roster: Roster, config: PromotionConfig) -> Decision:
    """Judge against the median and, where that is not enough, against the champion.

    In a league whose snapshots are alike nobody is above the median; a champion who is below must not stay for that.
    """
    decision = _judge_against_median(player, roster, config)
    champions = np.flatnonzero(roster.champion)
    if not decision.approved and champions.size:
        instead = _judge_against_champion(player, int(champions[0]), roster, config)
        decision = instead if instead.approved else decision
    return replace(decision, reason=f"{decision.reason}; {taken} of {config.capacity} places taken")


def _judge_against_median(player: int, roster: Roster, config: PromotionConfig) -> Decision:
    others = np.delete(roster.ratings.rating, player)
    if not others.size:
        return Decision(player, approved=False, reason="there is no other frozen player to compare with")
    median = float(np.median(others))
    chance = superiority(float(roster.ratings.rating[player]), float(roster.ratings.deviation[player]), median)
    return _judge_by_chance(player, f"the median frozen player at {median:.0f}", chance, config.superiority)


def _judge_against_commanders(player: int, commanders: list[int], roster: Roster, config: PromotionConfig) -> Decision:
    floor = conservative(roster.ratings)
    weakest = min(commanders, key=lambda commander: floor[commander])
    compared = (
        f"its conservative rating {floor[player]:.0f} against {floor[weakest]:.0f} of {roster.names[weakest]}, "
        "the weakest commander,"
    )
    if floor[player] <= floor[weakest]:
        return Decision(player, approved=False, reason=f"{compared} is not enough; all places are taken")
    beaten = _beaten(player, commanders, roster, config)
    if beaten is not None:
        return Decision(player, approved=False, reason=beaten)
    reason = f"{compared} wins it a place; no commander is known to hold it under {config.least_win_rate:g}"
    if config.gate == "off":
        return Decision(player, approved=True, reason=reason)
    result = roster.gates.get(player)
    if result is None:
        champion = np.flatnonzero(roster.champion)
        rival = int(champion[0]) if config.gate == "champion" and champion.size else weakest
        told = f"{reason}, once it passes a gate against {roster.names[rival]}"
        return GateRequest(player, approved=False, reason=told, rival=rival)
    return Decision(player, approved=result.decision == "accept", reason=f"{reason}; {result.told}")


def _beaten(player: int, commanders: list[int], roster: Roster, config: PromotionConfig) -> str | None:
    """Say which commander is known to hold a candidate down; None where none is."""
    record = roster.record(player, commanders)
    known = np.flatnonzero(record.games >= config.least_pair_games)
    if not known.size:
        return None
    worst = known[np.argmin(record.win_rate[known])]
    if record.win_rate[worst] >= config.least_win_rate:
        return None
    return (
        f"win rate {record.win_rate[worst]:.2f} over {record.games[worst]:.0f} games against "
        f"{roster.names[commanders[worst]]}, under {config.least_win_rate:g}"
    )
