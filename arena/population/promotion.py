"""Promotion of candidates to commanders, succession of the champion, and retirement, by rule and with a reason.

Only players with enough games are eligible: their own games must measure the rating precisely (its standard error). RD
does not decide that, because it includes the distance to the baselines, which no match can reduce. A candidate must
very probably be better than the commanders on average or than the champion, by its predicted scores against them. When
all places are taken, it must not have a low win rate against any commander. As soon as there is a commander, a
candidate must also pass a gate, a sequential test with its own matches (`arena.evaluation.sprt`). Predictions only
decide who is tested. Afterwards the commanders beyond the capacity whose loss costs least diversity retire. Scripted
baselines, the champion and players with few games never retire. The champion is a commander. Another commander succeeds
it if it is very probably better and wins a gate against it.

Each rule takes a roster and returns decisions.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from arena.arrays import BoolArray, FloatArray, IntArray
from arena.evaluation.sprt import Decision as GateDecision
from arena.evaluation.sprt import SprtConfig
from arena.ratings.glicko2 import SCALE, Ratings, conservative

GATES = ("off", "weakest", "champion")


@dataclass(frozen=True)
class PromotionConfig:
    """Rules of promotion and retirement.

    Attributes:
        capacity: Number of places for commanders, >= 1.
        superiority: Probability of being better than the commanders on average that suffices for a place, in (0, 1).
            The first commander must be better than the median frozen player.
        least_games: Fewest rated games before a player is promoted or retired, >= 0.
        max_interval: Maximum width of the 95 % interval against its opponents, rating +- 2 standard errors from end to
            end, of a player that is promoted or becomes champion, in points, > 0. The default allows +-75 points, a
            standard error of 37.5.
        least_win_rate: Lowest win rate against any commander for a promotion beyond capacity, in [0, 1].
        least_pair_games: Fewest effective games of a win rate that can prevent a promotion, >= 0.
        succession: Probability of being better than the champion that suffices for succession or for a place, in (0.5,
            1).
        gate: Opponent in the gate of a candidate: the `weakest` commander, or the `champion` if there is one; `off`
            for no gates, neither for promotion nor for succession.
        gate_elo0: Lead under H0 of the gate, in points.
        gate_elo1: Lead under H1 of the gate, in points, > gate_elo0.
        gate_share: Share of the matches between frozen players used for open gates, in (0, 1].

    Raises:
        ValueError: A value is out of range.
    """

    capacity: int = 20
    superiority: float = 0.95
    least_games: int = 20
    max_interval: float = 150.0
    least_win_rate: float = 0.45
    least_pair_games: float = 20.0
    succession: float = 0.99
    gate: Literal["off", "weakest", "champion"] = "weakest"
    gate_elo0: float = 0.0
    gate_elo1: float = 50.0
    gate_share: float = 0.5

    @property
    def max_error(self) -> float:
        """Largest standard error of a rating that is not provisional: its interval has the maximum width."""
        return self.max_interval / 4.0

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
        if not self.max_interval > 0.0:
            raise ValueError(f"max_interval is {self.max_interval}: it must be above 0 points; 150 is typical")
        if self.gate not in GATES:
            raise ValueError(f"gate is {self.gate!r}: it must be one of {', '.join(GATES)}")
        if not 0.0 < self.gate_share <= 1.0:
            raise ValueError(f"gate_share is {self.gate_share}: it must be in (0, 1]; 0.5 is typical")
        SprtConfig(self.gate_elo0, self.gate_elo1)


@dataclass(frozen=True, eq=False)
class HeadToHead:
    """A player's record against K others.

    Attributes:
        win_rate: (K,) estimated win rates, see `arena.evaluation.payoff.win_rates`.
        games: (K,) effective games of each.
    """

    win_rate: FloatArray
    games: FloatArray


@dataclass(frozen=True)
class GateResult:
    """Result of a candidate's gate.

    Attributes:
        decision: Decision of the test, see `arena.evaluation.sprt.SprtState`.
        description: Its state in words.
    """

    decision: GateDecision
    description: str


@dataclass(frozen=True, eq=False)
class Roster:
    """The P frozen players of one environment.

    Attributes:
        names: P names for reasons.
        ratings: Ratings of P players.
        games: (P,) int64 rated games of each.
        standard_error: (P,) of each rating, in points; see `arena.ratings.bradley_terry.standard_errors`.
        candidate: (P,) true for candidates for promotion.
        commander: (P,) true for commanders.
        champion: (P,) true for the champion. False everywhere without one.
        baseline: (P,) true for scripted players, which never retire.
        expected: Returns a player's predicted scores against K others, by their indices in the roster, (K,) in [0, 1].
        record: Returns a player's record against others, by their indices in the roster. Both are called for few
            players, so that a large league needs no table of all pairs.
        gates: Gates that the rule has opened for candidates, by index in the roster.
        title_gates: Gates of other commanders against the champion, by the commander's index in the roster.

    Raises:
        ValueError: A column does not have one entry per player, a player is both candidate and commander, or there are
            several champions or one that is not a commander.
    """

    names: tuple[str, ...]
    ratings: Ratings
    games: IntArray
    standard_error: FloatArray
    candidate: BoolArray
    commander: BoolArray
    champion: BoolArray
    baseline: BoolArray
    expected: Callable[[int, Sequence[int]], FloatArray]
    record: Callable[[int, Sequence[int]], HeadToHead]
    gates: Mapping[int, GateResult]
    title_gates: Mapping[int, GateResult]

    def __post_init__(self) -> None:
        players = len(self.ratings)
        for name in ("games", "standard_error", "candidate", "commander", "champion", "baseline"):
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
    """Decision about one player.

    Attributes:
        player: Index in the roster.
        approved: Whether the change of status happens.
        reason: Reason with numbers, for the audit log.
    """

    player: int
    approved: bool
    reason: str


@dataclass(frozen=True)
class GateRequest(Decision):
    """A candidate that is eligible but must pass a gate first.

    Attributes:
        rival: Opponent in the gate, an index in the roster.
    """

    rival: int


def superiority(rating: float, deviation: float, opponent: float) -> float:
    """Return the probability that a player's strength is above a given rating.

        P(theta > m) = Phi((r - m) / RD),  theta ~ N(r, RD^2)

    Args:
        rating: r in points.
        deviation: RD in points, >= 0; if 0, the result is 0, 0.5 or 1.
        opponent: m in points.
    """
    return _probability_ahead(rating - opponent, deviation)


def _probability_ahead(lead: float, deviation: float) -> float:
    """Return the probability that a normally distributed lead with this mean and deviation is above 0."""
    if deviation == 0.0:
        return 0.5 + 0.5 * float(np.sign(lead))
    return 0.5 * math.erfc(-lead / (deviation * math.sqrt(2.0)))


def promotions(roster: Roster, config: PromotionConfig) -> tuple[Decision, ...]:
    """Decide on every candidate, highest conservative rating first; each promotion takes a place at once.

    Args:
        roster: The frozen players.
        config: The rules.

    Returns:
        One decision per candidate, in the order of decision.
    """
    floor = conservative(roster.ratings)
    candidates = np.flatnonzero(roster.candidate)
    commanders = [int(player) for player in np.flatnonzero(roster.commander)]
    decisions = []
    for player in candidates[np.argsort(-floor[candidates], kind="stable")]:
        decision = _decide_candidate(int(player), commanders, roster, config)
        decisions.append(decision)
        if decision.approved:
            commanders.append(decision.player)
    return tuple(decisions)


def retirements(roster: Roster, config: PromotionConfig, newcomers: Collection[int] = ()) -> tuple[Decision, ...]:
    """Choose commanders to retire while there are more than places, those whose loss costs least diversity first.

    They have the least weight in the Nash average of the commanders' predicted scores. In a cycle of strategies, each
    strategy has weight, and copies of a strategy share it. Without a cycle only the strongest has, so that the lowest
    conservative rating decides among the others.

    Baselines, the champion, newcomers and commanders with few games stay, so fewer may retire than exceed the capacity.

    Args:
        roster: The frozen players, with promotions and succession applied.
        config: The rules.
        newcomers: Indices of the players that have just become commanders.

    Returns:
        One approved decision per commander that retires, in the order in which they leave.
    """
    commanders = np.flatnonzero(roster.commander).tolist()
    bound = roster.baseline | roster.champion | (roster.games < config.least_games)
    decisions = []
    while len(commanders) > config.capacity:
        may_leave = [player for player in commanders if not bound[player] and player not in newcomers]
        if not may_leave:
            break
        weight = dict(zip(commanders, _nash_weights(commanders, roster), strict=True))
        floor = conservative(roster.ratings)
        leaving = min(may_leave, key=lambda player: (weight[player], float(floor[player])))
        reason = (
            f"{len(commanders)} commanders for {config.capacity} places; of those that may retire, it has the least "
            f"Nash weight, {weight[leaving]:.2f}, and then the lowest conservative rating, {floor[leaving]:.0f}"
        )
        decisions.append(Decision(leaving, approved=True, reason=reason))
        commanders.remove(leaving)
    return tuple(decisions)


def _nash_weights(players: Sequence[int], roster: Roster) -> list[float]:
    """Return the weights of players in the Nash average of their predicted scores, rounded to 1 %."""
    from arena.evaluation.nash_averaging import max_entropy_nash  # lazy import: scipy would delay every command

    expected = np.array([roster.expected(player, players) for player in players])
    # Rounded, so that the last digits of the solver do not decide between equal players.
    return [round(weight, 2) for weight in max_entropy_nash(expected).tolist()]


def succession(roster: Roster, config: PromotionConfig) -> Decision | None:
    """Decide on succession: challengers are the eligible commanders, highest conservative rating first.

        P(challenger better than champion) = Phi(min(r1 - r2, lead) / sqrt(RD1^2 + RD2^2))

    `lead` is the lead in points that the predicted score of the pair amounts to. The difference of ratings counts as
    well, because three players that beat each other in a circle would otherwise succeed each other without end. Without
    a champion, the first challenger becomes champion. Otherwise a challenger succeeds only if this probability
    reaches `config.succession` and it then wins a gate against the champion. The probability is compared after every
    rating period and would alone be crossed by noise. A challenger is tested once against the same champion.

    Args:
        roster: The frozen players, with promotions applied.
        config: The rules.

    Returns:
        The decision about the first challenger that succeeds, else about the first that needs a gate, a `GateRequest`,
        else about the first; None without a challenger.
    """
    floor = conservative(roster.ratings)
    settled = (roster.games >= config.least_games) & (roster.standard_error <= config.max_error)
    ready = np.flatnonzero(roster.commander & ~roster.champion & settled)
    if not ready.size:
        return None
    challengers = [int(player) for player in ready[np.argsort(-floor[ready], kind="stable")]]
    champions = np.flatnonzero(roster.champion)
    if not champions.size:
        reason = f"there was no champion; highest conservative rating of all commanders: {floor[challengers[0]]:.0f}"
        return Decision(challengers[0], approved=True, reason=reason)
    decisions = [_decide_challenger(player, int(champions[0]), roster, config) for player in challengers]
    return min(decisions, key=lambda decision: (not decision.approved, not isinstance(decision, GateRequest)))


def _decide_challenger(player: int, champion: int, roster: Roster, config: PromotionConfig) -> Decision:
    rating = roster.ratings.rating
    lead = min(float(rating[player] - rating[champion]), _lead(float(roster.expected(player, [champion])[0])))
    decision = _compare_with_champion(player, champion, lead, roster, config)
    if not decision.approved:
        return decision
    return _require_gate(decision, champion, roster.title_gates.get(player), roster, config)


def _require_gate(
    decision: Decision, rival: int, result: GateResult | None, roster: Roster, config: PromotionConfig
) -> Decision:
    """Return an approved decision as it stands after the player's gate; a request if there is no gate yet."""
    if config.gate == "off":
        return decision
    if result is None:
        reason = f"{decision.reason}; it must first pass a gate against {roster.names[rival]}"
        return GateRequest(decision.player, approved=False, reason=reason, rival=rival)
    return replace(decision, approved=result.decision == "accept", reason=f"{decision.reason}; {result.description}")


def _compare_with_champion(
    player: int, champion: int, lead: float, roster: Roster, config: PromotionConfig
) -> Decision:
    """Compare with the champion, over which the player is expected to lead by so many points."""
    rating, deviation = roster.ratings.rating, roster.ratings.deviation
    joint = math.hypot(float(deviation[player]), float(deviation[champion]))
    rival = f"the champion {roster.names[champion]} at {rating[champion]:.0f}"
    return _decide_by_probability(player, rival, _probability_ahead(lead, joint), config.succession)


def _lead(expected: float) -> float:
    """Return the lead in points that an expected score amounts to."""
    if not 0.0 < expected < 1.0:
        return math.copysign(math.inf, expected - 0.5)
    return SCALE * math.log(expected / (1.0 - expected))


def _decide_by_probability(player: int, rival: str, chance: float, least: float) -> Decision:
    """Approve a player that is better than a rival with at least the required probability."""
    approved = chance >= least
    compared = "at least" if approved else "under"
    return Decision(player, approved=approved, reason=f"P(better than {rival}) is {chance:.3f}, {compared} {least:g}")


def _decide_candidate(player: int, commanders: list[int], roster: Roster, config: PromotionConfig) -> Decision:
    games = int(roster.games[player])
    if games < config.least_games:
        reason = f"{games} of the {config.least_games} required games; it needs more rating matches"
        return Decision(player, approved=False, reason=reason)
    error = float(roster.standard_error[player])
    if error > config.max_error:
        reason = (
            f"its 95 % interval against its opponents is {4.0 * error:.0f} points wide, above {config.max_interval:g}; "
            f"it needs more rating matches than its {games}"
        )
        return Decision(player, approved=False, reason=reason)
    decision = _decide_superiority(player, commanders, roster, config)
    if not decision.approved or not commanders:
        return decision
    return _require_gate(decision, _rival(commanders, roster, config), roster.gates.get(player), roster, config)


def _rival(commanders: list[int], roster: Roster, config: PromotionConfig) -> int:
    """Return the opponent of a candidate's gate."""
    champion = np.flatnonzero(roster.champion)
    if config.gate == "champion" and champion.size:
        return int(champion[0])
    return _weakest(commanders, roster)


def _weakest(commanders: list[int], roster: Roster) -> int:
    floor = conservative(roster.ratings)
    return min(commanders, key=lambda commander: float(floor[commander]))


def _decide_superiority(player: int, commanders: list[int], roster: Roster, config: PromotionConfig) -> Decision:
    """Compare with the commanders and, if that does not suffice, with the champion.

    In a league of similar snapshots no player is clearly better than the commanders on average. The second comparison
    lets a better player, or one with a new answer to the champion, become a commander even then.
    """
    if commanders:
        decision = _compare_with_commanders(player, commanders, roster, config)
    else:
        decision = _compare_with_median(player, roster, config)
    champions = np.flatnonzero(roster.champion)
    if not decision.approved and champions.size:
        champion = int(champions[0])
        lead = _lead(float(roster.expected(player, [champion])[0]))
        instead = _compare_with_champion(player, champion, lead, roster, config)
        decision = instead if instead.approved else decision
    decision = replace(decision, reason=f"{decision.reason}; {len(commanders)} of {config.capacity} places taken")
    if decision.approved and len(commanders) >= config.capacity:
        beaten = _beaten(player, commanders, roster, config)
        return decision if beaten is None else Decision(player, approved=False, reason=beaten)
    return decision


def _compare_with_median(player: int, roster: Roster, config: PromotionConfig) -> Decision:
    others = np.delete(roster.ratings.rating, player)
    if not others.size:
        return Decision(player, approved=False, reason="there is no other frozen player to compare with")
    median = float(np.median(others))
    chance = superiority(float(roster.ratings.rating[player]), float(roster.ratings.deviation[player]), median)
    return _decide_by_probability(player, f"the median frozen player at {median:.0f}", chance, config.superiority)


def _compare_with_commanders(player: int, commanders: list[int], roster: Roster, config: PromotionConfig) -> Decision:
    expected = float(roster.expected(player, commanders).mean())
    deviation = roster.ratings.deviation
    of_mean = math.sqrt(float(np.square(deviation[commanders]).sum())) / len(commanders)
    chance = _probability_ahead(_lead(expected), math.hypot(float(deviation[player]), of_mean))
    rival = f"the commanders, expected score {expected:.2f}"
    return _decide_by_probability(player, rival, chance, config.superiority)


def _beaten(player: int, commanders: list[int], roster: Roster, config: PromotionConfig) -> str | None:
    """Return the reason if a candidate's win rate against a commander is too low; None otherwise."""
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
