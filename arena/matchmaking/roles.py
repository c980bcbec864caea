"""League roles: opponent distributions, snapshots and resets of main agents and exploiters.

A main plays itself and the other mains, all opponents by PFSP, and its known weaknesses. A main exploiter plays only
the mains, to find weaknesses they have now. A league exploiter plays all opponents, to find weaknesses of the whole
league. Exploiters reset to their initial weights, so that they look for new weaknesses.

All opponents are frozen: the newest snapshot of a lineage represents its current learner. The current strength of a
lineage is estimated from its earlier snapshots too, because the newest one may have no games yet.

Source: Vinyals et al., "Grandmaster level in StarCraft II" (2019), methods and pseudocode, which differ in some points.
The shares and limits are taken from there, except `exploiter_below` (0.3 in the paper): in games with much chance a
good exploiter wins less than 70 % of matches.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from arena.arrays import BoolArray, FloatArray, IntArray, share_column
from arena.matchmaking.distribution import Branch, Distribution, MatchmakingConfig, opponent_distribution
from arena.matchmaking.pfsp import pfsp_weights, require_share
from arena.matchmaking.rules import Candidates

Role = Literal["main", "main_exploiter", "league_exploiter"]
Start = Literal["first", "main"]
"""Weights after a reset: the learner's initial weights, or the current weights of a main."""

MAINS = "mains"
VERIFICATION = "verification"


@dataclass(frozen=True, eq=False)
class OpponentTable:
    """Columns of the K possible opponents of a learner: win rates, lineages and roles.

    Attributes:
        win_rates: (K,) probability that the learner beats each, in [0, 1].
        recent_win_rates: (K,) the same for each opponent's lineage, over its latest snapshots only.
        lineage: (K,) int64 whose lineage each belongs to, NO_LINEAGE for baselines.
        main: (K,) true for players of a main's lineage.
        exploiter: (K,) true for players of an exploiter's lineage, of either kind.
        step: (K,) int64 how old each was when published, in steps of its lineage; only the order counts.
        own: The learner's own lineage.

    Raises:
        ValueError: Columns differ in length, a win rate is out of range, or a player is both main and exploiter.
    """

    win_rates: FloatArray
    recent_win_rates: FloatArray
    lineage: IntArray
    main: BoolArray
    exploiter: BoolArray
    step: IntArray
    own: int

    def __post_init__(self) -> None:
        for name in ("win_rates", "recent_win_rates"):
            object.__setattr__(self, name, share_column(name, getattr(self, name), "a win rate"))
        for name in ("recent_win_rates", "lineage", "main", "exploiter", "step"):
            shape = getattr(self, name).shape
            if shape != self.win_rates.shape:
                raise ValueError(f"{name} has shape {shape}: with {self.win_rates.size} win_rates pass one for each")
        both = np.flatnonzero(self.main & self.exploiter)
        if both.size:
            raise ValueError(f"player {both[0]} is of a main's and of an exploiter's lineage: it has one role")

    @property
    def rival_mains(self) -> IntArray:
        """Indices of the newest snapshot of each other main, ordered by lineage."""
        others = np.flatnonzero(self.main & (self.lineage != self.own))
        by_age = others[np.lexsort((self.step[others], self.lineage[others]))]
        lineage = self.lineage[by_age]
        return by_age[np.append(lineage[1:] != lineage[:-1], True)] if by_age.size else by_age


@dataclass(frozen=True)
class SnapshotRule:
    """When a learner publishes a snapshot, and the probability of a reset afterwards.

    Attributes:
        steps: Fewest steps since the last snapshot, >= 0.
        limit: Steps after which a snapshot is always taken, >= `steps`, > 0.
        win_rate: Between the two, a snapshot is taken once the win rate against every relevant opponent is above this,
            in [0, 1].
        reset: Probability of a reset after a snapshot, in [0, 1].
        start: Weights after the reset.

    Raises:
        ValueError: A value is out of range.
    """

    steps: int
    limit: int
    win_rate: float = 0.7
    reset: float = 0.0
    start: Start = "first"

    def __post_init__(self) -> None:
        _require_shares(self, ("win_rate", "reset"))
        if not 0 <= self.steps <= self.limit or self.limit < 1:
            raise ValueError(
                f"snapshot_steps is {self.steps} and snapshot_limit {self.limit}: 0 <= steps <= limit and limit > 0"
            )
        if self.start not in get_args(Start):
            raise ValueError(f"start is {self.start!r}: choose one of {', '.join(get_args(Start))}")


@dataclass(frozen=True)
class Main:
    """Rules of a main.

    Attributes:
        snapshots: When it publishes a snapshot.
        matchmaking: Self-play and PFSP. The shares of the two branches below are taken from the probability that
            `self_play_share` leaves.
        verification_share: Share of games against known weaknesses.
        live_above: With a recent win rate against another main of at most this, it plays that main's snapshots instead.
        exploiter_below: Exploiters with a lower win rate count as a weakness.
        past_below: Without such exploiters, own snapshots with a lower win rate count as a weakness.

    Raises:
        ValueError: A value is out of range.
    """

    role: ClassVar[Role] = "main"
    snapshots: SnapshotRule
    matchmaking: MatchmakingConfig
    verification_share: float = 0.15
    live_above: float = 0.3
    exploiter_below: float = 0.5
    past_below: float = 0.7

    def __post_init__(self) -> None:
        _require_shares(self, ("verification_share", "live_above", "exploiter_below", "past_below"))
        self_play = self.matchmaking.self_play_share
        if self_play + self.verification_share > 1.0:
            raise ValueError(
                f"self_play_share is {self_play} and verification_share {self.verification_share}: "
                "together they must not exceed 1"
            )


@dataclass(frozen=True)
class MainExploiter:
    """Rules of a main exploiter.

    Attributes:
        snapshots: When it publishes a snapshot.
        live_above: With a recent win rate against a main of at most this, it plays that main's snapshots instead, in
            [0, 1].

    Raises:
        ValueError: The value is out of range.
    """

    role: ClassVar[Role] = "main_exploiter"
    snapshots: SnapshotRule
    live_above: float = 0.1

    def __post_init__(self) -> None:
        _require_shares(self, ("live_above",))


@dataclass(frozen=True)
class LeagueExploiter:
    """Rules of a league exploiter.

    Attributes:
        snapshots: When it publishes a snapshot.
        matchmaking: Opponent distribution over all players.
    """

    role: ClassVar[Role] = "league_exploiter"
    snapshots: SnapshotRule
    matchmaking: MatchmakingConfig


RoleRules = Main | MainExploiter | LeagueExploiter

_PREFERENCES = ("weighting", "power", "uniform_share", "balance")
_SNAPSHOTS = {
    "snapshot_steps": "steps",
    "snapshot_limit": "limit",
    "snapshot_win_rate": "win_rate",
    "reset": "reset",
    "start": "start",
}
_THRESHOLDS: dict[Role, tuple[str, ...]] = {
    "main": ("verification_share", "live_above", "exploiter_below", "past_below"),
    "main_exploiter": ("live_above",),
    "league_exploiter": (),
}
_MATCHMAKING: dict[Role, tuple[str, ...]] = {
    "main": ("self_play_share", *_PREFERENCES),
    "main_exploiter": (),
    "league_exploiter": _PREFERENCES,
}
# As in AlphaStar (Vinyals et al. 2019): main exploiters start over after each snapshot, league exploiters at times.
_RESETS: dict[Role, float] = {"main": 0.0, "main_exploiter": 1.0, "league_exploiter": 0.25}

STEPS = 500_000
"""Default number of steps before a snapshot; the default limit is twice that."""


def role_rules(role: Role, given: Mapping[str, Any], league: MatchmakingConfig) -> RoleRules:
    """Return the rules of a role, with the learner's own settings applied.

    A league exploiter uses the weighting "capped". All other matchmaking settings default to those of the league.

    Args:
        role: Role of the learner.
        given: Settings by name: `snapshot_steps`, `snapshot_limit`, `snapshot_win_rate`, `reset` and `start` of
            `SnapshotRule`, and the settings of the role and its matchmaking.
        league: Matchmaking settings of the league.

    Raises:
        ValueError: The role is unknown, has no such setting, or a value is out of range.
    """
    if role not in _RESETS:
        raise ValueError(f"role is {role!r}: choose one of {', '.join(_RESETS)}")
    known = (*_SNAPSHOTS, *_MATCHMAKING[role], *_THRESHOLDS[role])
    for name in given:
        if name not in known:
            raise ValueError(f"{name} is given: a {role} has no such number, only {', '.join(known)}")
    snapshots = _snapshot_rule(role, given)
    thresholds = {name: given[name] for name in _THRESHOLDS[role] if name in given}
    match role:
        case "main":
            return Main(snapshots, _preferring(league, given), **thresholds)
        case "main_exploiter":
            return MainExploiter(snapshots, **thresholds)
        case "league_exploiter":
            usual = replace(league, weighting="capped", mixture=(), self_play_share=0.0)
            return LeagueExploiter(snapshots, _preferring(usual, given))


def numbers(rules: RoleRules) -> dict[str, Any]:
    """Return all settings of a learner's rules by the names that `role_rules` accepts."""
    found = {name: getattr(rules.snapshots, field) for name, field in _SNAPSHOTS.items()}
    if not isinstance(rules, MainExploiter):
        found |= {name: getattr(rules.matchmaking, name) for name in _MATCHMAKING[rules.role]}
    return found | {name: getattr(rules, name) for name in _THRESHOLDS[rules.role]}


def _snapshot_rule(role: Role, given: Mapping[str, Any]) -> SnapshotRule:
    settings = {field: given[name] for name, field in _SNAPSHOTS.items() if name in given}
    if "limit" not in settings:
        settings["limit"] = 2 * settings.setdefault("steps", STEPS)
    settings.setdefault("steps", settings["limit"] // 2)
    return SnapshotRule(**{"reset": _RESETS[role], **settings})


def _preferring(config: MatchmakingConfig, given: Mapping[str, Any]) -> MatchmakingConfig:
    """Return the configuration with the given settings applied; a given weighting replaces a mixture."""
    names = {field.name for field in fields(config)}
    chosen = {name: value for name, value in given.items() if name in names}
    return replace(config, **({"mixture": ()} | chosen if "weighting" in chosen else chosen))


# --- snapshots -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Decision:
    """Decision to publish a snapshot.

    Attributes:
        reset: Whether the learner resets afterwards.
        reason: Explanation of the decision.
    """

    reset: bool
    reason: str


def decide(rule: SnapshotRule, role: Role, steps: int, against: OpponentTable, chance: float) -> Decision | None:
    """Decide whether a learner publishes a snapshot now and resets afterwards; None for no snapshot.

    The relevant opponents are the mains, by recent win rate, for a main exploiter, and all players for the other roles.
    Without relevant opponents only the step limit counts.

    Args:
        rule: Conditions of a snapshot.
        role: Role of the learner.
        steps: Steps since its last snapshot or its start, >= 0.
        against: Its possible opponents.
        chance: Uniform sample in [0, 1). The learner resets if it is below `rule.reset`.
    """
    if steps < rule.steps:
        return None
    mains_count = role == "main_exploiter"
    win_rates = against.recent_win_rates[against.rival_mains] if mains_count else against.win_rates
    least = float(win_rates.min(initial=1.0))
    relevant = f"{win_rates.size} relevant {'mains' if mains_count else 'players'}"
    lowest = f" (lowest win rate: {least:.1%})" if win_rates.size else ""
    if win_rates.size and least > rule.win_rate:
        reason = f"win rate above {rule.win_rate:.0%} against all {relevant}{lowest}"
    elif steps >= rule.limit:
        reason = f"{steps} steps since the last snapshot (limit: {rule.limit}); {relevant}{lowest}"
    else:
        return None
    return Decision(reset=chance < rule.reset, reason=reason)


# --- opponents -------------------------------------------------------------------------------------------------------


def role_distribution(against: OpponentTable, candidates: Candidates, rules: RoleRules) -> Distribution:
    """Return the opponent distribution of a learner by its role.

    A main:

    * self-play: itself or another main with equal shares. A main that is too strong for it is replaced by one of that
      main's snapshots, by "variance". The learner's own part is `self_play` of the distribution.
    * pfsp: all opponents, by the rule or mixture of its matchmaking.
    * verification: snapshots of exploiters with a low win rate. Without any, its own snapshots with a low win rate,
      except the newest ones that are each no easier than the one before. Both by "hard".

    A main exploiter plays a current main, or one of its snapshots by "variance". A league exploiter plays all opponents
    by its matchmaking. If a branch has no eligible opponent, its share goes to self-play. Mains and league exploiters
    warm up as in `opponent_distribution`.

    Args:
        against: The learner's K possible opponents.
        candidates: The same opponents as input of the weighting rules.
        rules: Rules of the learner's role.

    Raises:
        ValueError: A weighting rule failed or returned invalid weights.
    """
    match rules:
        case MainExploiter():
            return _mixed(against, [_mains_branch(against, 1.0, rules.live_above)])
        case LeagueExploiter():
            return opponent_distribution(candidates, rules.matchmaking)
        case Main():
            if rules.matchmaking.warming(candidates.learner_games):
                return opponent_distribution(candidates, rules.matchmaking)
            return _mixed(against, _main_branches(against, candidates, rules))


def without_self_play(distribution: Distribution) -> Distribution:
    """Return the distribution conditional on an opponent other than the learner itself, if there is one."""
    others = 1.0 - distribution.self_play
    if others <= 0.0:
        return distribution
    branches = tuple(replace(branch, share=branch.share / others) for branch in distribution.branches)
    return Distribution(0.0, branches, distribution.probabilities / others)


def _mixed(against: OpponentTable, branches: list[Branch]) -> Distribution:
    """Combine branches; the share of branches without an eligible opponent goes to self-play."""
    found = tuple(branch for branch in branches if branch.share > 0.0 and branch.weights.any())
    probabilities = np.sum([branch.share * branch.weights for branch in found], axis=0)
    return Distribution(
        # Rounding can make the shares of branches exceed 1.
        self_play=max(0.0, 1.0 - sum(branch.share for branch in found)) if found else 1.0,
        branches=found,
        # Without branches the sum is a scalar 0.
        probabilities=np.broadcast_to(probabilities, against.win_rates.shape).astype(np.float64),
    )


def _main_branches(against: OpponentTable, candidates: Candidates, rules: Main) -> list[Branch]:
    config, rivals = rules.matchmaking, against.rival_mains.size
    # the learner itself is one of the mains, so self-play includes it
    of_rivals = config.self_play_share * rivals / (1 + rivals)
    not_pfsp = config.self_play_share + rules.verification_share
    pfsp_branches = opponent_distribution(candidates, replace(config, self_play_share=not_pfsp)).branches
    weakness = _verification_branch(against, rules)
    return [_mains_branch(against, of_rivals, rules.live_above), *pfsp_branches, weakness]


def _mains_branch(against: OpponentTable, share: float, live_above: float) -> Branch:
    """Divide a share evenly among the other mains; a main that is too strong is replaced by its snapshots."""
    weights, eligible = np.zeros_like(against.win_rates), np.zeros(against.win_rates.size, dtype=np.bool_)
    rivals = against.rival_mains
    for index in rivals:
        chosen = np.array([index])
        if against.recent_win_rates[index] <= live_above:
            chosen = np.flatnonzero(against.lineage == against.lineage[index])
        weights[chosen] += pfsp_weights(against.win_rates[chosen], "variance") / rivals.size
        eligible[chosen] = True
    wanted = f"current mains with a win rate above {live_above:.0%}, otherwise their snapshots"
    return _branch(MAINS, share, "all mains equally, their snapshots by variance", weights, eligible, wanted)


def _verification_branch(against: OpponentTable, rules: Main) -> Branch:
    weak = against.exploiter & (against.win_rates < rules.exploiter_below)
    wanted = f"exploiters' snapshots with a win rate below {rules.exploiter_below:.0%}"
    if not weak.any():
        weak = _forgotten_past(against) & (against.win_rates < rules.past_below)
        wanted = f"own snapshots with a win rate below {rules.past_below:.0%}, without the newest"
    weights = np.zeros_like(against.win_rates)
    power = rules.matchmaking.power
    weights[weak] = pfsp_weights(against.win_rates[weak], "hard", power)
    return _branch(VERIFICATION, rules.verification_share, f"hard, power {power:g}", weights, weak, wanted)


def _forgotten_past(against: OpponentTable) -> BoolArray:
    """Return (K,) true for own snapshots, except the newest ones that are each no easier than the one before.

    It is normal that the newest snapshots are the hardest. They are no sign of forgetting.
    """
    own = np.flatnonzero(against.lineage == against.own)
    in_order = own[np.argsort(against.step[own], kind="stable")]
    # the win rate against the later of two is higher
    easier = np.flatnonzero(np.diff(against.win_rates[in_order]) > 0.0)
    past = np.zeros(against.win_rates.size, dtype=np.bool_)
    past[in_order[: easier[-1] + 2 if easier.size else 0]] = True
    return past


def _branch(name: str, share: float, rule: str, weights: FloatArray, eligible: BoolArray, wanted: str) -> Branch:
    return Branch(name=name, share=share, rule=rule, weights=weights, excluded=~eligible, filter=wanted)


def _require_shares(config: object, names: tuple[str, ...]) -> None:
    for name in names:
        require_share(name, getattr(config, name))
