"""What a learner's role in the league makes it play, when it leaves a snapshot, and whether it begins anew then.

A main plays the other mains and itself, everybody frozen, and those who are its known weakness. A main exploiter plays
the mains only, to find what beats them now. A league exploiter plays everybody frozen, to find what beats them all.
Exploiters return to the weights that they began with, so that they look for new weaknesses.

Source: Vinyals et al., "Grandmaster level in StarCraft II" (2019), methods and the pseudocode beside it, which differ
in places; the shares and limits here are theirs.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arena.matchmaking import PFSP, Branch, Distribution
from arena.weightings import WinRateWeighting, pfsp_weights, rate_column, require_power, require_share

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

NO_LINEAGE = -1
"""Lineage of a baseline."""

MAINS = "mains"
VERIFICATION = "verification"


@dataclass(frozen=True, eq=False)
class Opposition:
    """The K players that a learner of a role could meet, itself left out.

    Attributes:
        win_rates: (K,) probability that the learner beats each, in [0, 1].
        lineage: (K,) int64 whose lineage each belongs to, NO_LINEAGE for baselines.
        main: (K,) true for players of a main's lineage.
        exploiter: (K,) true for players of an exploiter's lineage, of either kind.
        live: (K,) true for learners that still move; all others are frozen. At most one of each lineage.
        step: (K,) int64 how old each was when published, in steps of its lineage; only the order counts.
        own: The learner's own lineage.

    Raises:
        ValueError: Columns differ in length, a win rate is out of range, or a player is both main and exploiter.
    """

    win_rates: FloatArray
    lineage: IntArray
    main: BoolArray
    exploiter: BoolArray
    live: BoolArray
    step: IntArray
    own: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "win_rates", rate_column(self.win_rates))
        for name in ("lineage", "main", "exploiter", "live", "step"):
            shape = getattr(self, name).shape
            if shape != self.win_rates.shape:
                raise ValueError(f"{name} has shape {shape}: with {self.win_rates.size} win_rates pass one for each")
        both = np.flatnonzero(self.main & self.exploiter)
        if both.size:
            raise ValueError(f"player {both[0]} is of a main's and of an exploiter's lineage: it has one role")
        if (self.live & (self.lineage == self.own)).any():
            raise ValueError("the learner itself is among its opponents: leave it out")

    @property
    def rival_mains(self) -> BoolArray:
        """(K,) true for the live mains."""
        return self.live & self.main

    @property
    def frozen(self) -> BoolArray:
        """(K,) true for whoever does not move any more."""
        return ~self.live


@dataclass(frozen=True)
class MainMixture:
    """How a main's opponents are chosen.

    Attributes:
        self_play_share: Share of games against a main, itself or another one, drawn with equal chances.
        verification_share: Share against known weaknesses. The rest goes to prioritised fictitious self-play.
        power: Exponent of the weighting "hard", >= 0.
        live_above: Against another main that it beats no more often it plays that main's snapshots instead.
        exploiter_below: Exploiters that it beats less often are a weakness.
        past_below: Own snapshots that it beats less often are one, if there is no such exploiter.
        uniform_share: Share of the uniform distribution mixed into prioritised fictitious self-play.

    Raises:
        ValueError: A value is out of its range.
    """

    self_play_share: float = 0.35
    verification_share: float = 0.15
    power: float = 2.0
    live_above: float = 0.3
    exploiter_below: float = 0.3
    past_below: float = 0.7
    uniform_share: float = 0.05

    def __post_init__(self) -> None:
        names = "self_play_share", "verification_share", "live_above", "exploiter_below", "past_below", "uniform_share"
        _require_shares(self, names)
        require_power(self.power)
        if self.self_play_share + self.verification_share > 1.0:
            raise ValueError(
                f"self_play_share is {self.self_play_share} and verification_share {self.verification_share}: "
                "together they must not exceed 1"
            )


@dataclass(frozen=True)
class MainExploiterMixture:
    """How a main exploiter's opponents are chosen.

    Attributes:
        live_above: Against a main that it beats no more often it plays that main's snapshots instead, in [0, 1].

    Raises:
        ValueError: The value is out of its range.
    """

    live_above: float = 0.1

    def __post_init__(self) -> None:
        _require_shares(self, ("live_above",))


@dataclass(frozen=True)
class LeagueExploiterMixture:
    """How a league exploiter's opponents are chosen.

    Attributes:
        weighting: Preference among all frozen players.
        uniform_share: Share of the uniform distribution mixed in, in [0, 1].

    Raises:
        ValueError: The share is out of its range.
    """

    weighting: WinRateWeighting = "capped"
    uniform_share: float = 0.05

    def __post_init__(self) -> None:
        _require_shares(self, ("uniform_share",))
        pfsp_weights([0.5], self.weighting)


Mixture = MainMixture | MainExploiterMixture | LeagueExploiterMixture


@dataclass(frozen=True)
class SnapshotRule:
    """When a learner leaves a snapshot, and how likely it then returns to the weights that it began with.

    Attributes:
        steps: Not before so many steps since the last one, >= 0.
        win_rate: Then as soon as it beats everybody who counts more often than that, in [0, 1].
        limit: In any case after so many steps, >= `steps`, > 0.
        reset: Probability of beginning anew afterwards, in [0, 1].

    Raises:
        ValueError: A value is out of its range.
    """

    steps: int
    limit: int
    reset: float
    win_rate: float = 0.7

    def __post_init__(self) -> None:
        _require_shares(self, ("win_rate", "reset"))
        if not 0 <= self.steps <= self.limit or self.limit < 1:
            raise ValueError(f"steps is {self.steps} and limit {self.limit}: 0 <= steps <= limit and limit > 0")


def main_snapshots(steps: int) -> SnapshotRule:
    """Return a main's rule: after so many steps if it beats everybody frozen, else after twice as many; never reset."""
    return SnapshotRule(steps=steps, limit=2 * steps, reset=0.0)


def main_exploiter_snapshots(limit: int) -> SnapshotRule:
    """Return a main exploiter's rule: as soon as it beats the mains, or at the limit; always reset."""
    return SnapshotRule(steps=0, limit=limit, reset=1.0)


def league_exploiter_snapshots(limit: int) -> SnapshotRule:
    """Return a league exploiter's rule: as soon as it beats everybody frozen, or at the limit; one reset in four."""
    return SnapshotRule(steps=0, limit=limit, reset=0.25)


def snapshot_due(steps: int, against: Opposition, mixture: Mixture, rule: SnapshotRule) -> bool:
    """Say whether a learner should leave a snapshot.

    Those who count are the live mains for a main exploiter, everybody frozen for the others. Where nobody counts only
    the limit decides.

    Args:
        steps: Since its last snapshot or its beginning, >= 0.
        against: Whom it could meet.
        mixture: Of its role.
        rule: When.
    """
    counts = against.rival_mains if isinstance(mixture, MainExploiterMixture) else against.frozen
    beaten = bool(counts.any() and (against.win_rates[counts] > rule.win_rate).all())
    return steps >= rule.limit or (steps >= rule.steps and beaten)


def role_distribution(against: Opposition, mixture: Mixture) -> Distribution:
    """Return the distribution of a learner's next opponent by its role.

    A main:

    * self-play: a main, itself or another one; where it is too weak against that one, one of its snapshots by
      "variance". The learner's own part of it is `self_play` of the distribution.
    * pfsp: everybody frozen, by "hard".
    * verification: exploiters' snapshots that it beats too rarely, else its own snapshots that it beats too rarely,
      once the newest ones, each harder than the one before, are left out; by "hard".

    A main exploiter: a live main, or one of its snapshots by "variance". A league exploiter: everybody frozen, by
    "capped". What finds nobody goes to self-play.

    Args:
        against: The learner's K possible opponents.
        mixture: Of its role, with its numbers.
    """
    match mixture:
        case MainMixture():
            branches = _main_branches(against, mixture)
        case MainExploiterMixture():
            branches = [_mains_branch(against, against.rival_mains, 1.0, mixture.live_above)]
        case LeagueExploiterMixture():
            branches = [_frozen_branch(against, 1.0, mixture.weighting, 0.0, mixture.uniform_share)]
    found = tuple(branch for branch in branches if branch.share > 0.0 and branch.weights.any())
    probabilities = np.sum([branch.share * branch.weights for branch in found], axis=0)
    return Distribution(
        self_play=max(0.0, 1.0 - sum(branch.share for branch in found)),
        branches=found,
        probabilities=np.broadcast_to(probabilities, against.win_rates.shape).astype(np.float64),
    )


def _main_branches(against: Opposition, mixture: MainMixture) -> list[Branch]:
    others = against.rival_mains
    of_others = others.sum() / (1.0 + others.sum())  # the learner is one of the mains
    pfsp_share = 1.0 - mixture.self_play_share - mixture.verification_share
    return [
        _mains_branch(against, others, float(mixture.self_play_share * of_others), mixture.live_above),
        _frozen_branch(against, pfsp_share, "hard", mixture.power, mixture.uniform_share),
        _verification_branch(against, mixture),
    ]


def _mains_branch(against: Opposition, mains: BoolArray, share: float, live_above: float) -> Branch:
    """Divide a share evenly among mains: each itself where the learner stands a chance, else its snapshots."""
    weights, met = np.zeros_like(against.win_rates), np.zeros_like(mains)
    places = np.flatnonzero(mains)
    for place in places:
        chosen = against.frozen & (against.lineage == against.lineage[place])
        if against.win_rates[place] > live_above or not chosen.any():
            chosen = np.arange(mains.size) == place
        weights[chosen] += pfsp_weights(against.win_rates[chosen], "variance") / places.size
        met |= chosen
    wanted = f"live mains that it beats more than {live_above:.0%} of the time, else that main's snapshots"
    return _branch(MAINS, share, "a main as likely as another, its snapshots by variance", weights, met, wanted)


def _frozen_branch(
    against: Opposition, share: float, weighting: WinRateWeighting, power: float, uniform_share: float
) -> Branch:
    weights = np.zeros_like(against.win_rates)
    if against.frozen.any():
        preferred = pfsp_weights(against.win_rates[against.frozen], weighting, power)
        weights[against.frozen] = (1.0 - uniform_share) * preferred + uniform_share / preferred.size
    named = f"{weighting}, power {power:g}" if weighting == "hard" else weighting
    return _branch(PFSP, share, f"{named}; {uniform_share:.0%} uniform", weights, against.frozen, "frozen")


def _verification_branch(against: Opposition, mixture: MainMixture) -> Branch:
    weak = against.frozen & against.exploiter & (against.win_rates < mixture.exploiter_below)
    wanted = f"exploiters' snapshots that it beats less than {mixture.exploiter_below:.0%} of the time"
    if not weak.any():
        weak = _forgotten_past(against) & (against.win_rates < mixture.past_below)
        wanted = f"own snapshots that it beats less than {mixture.past_below:.0%} of the time, the newest left out"
    weights = np.zeros_like(against.win_rates)
    if weak.any():
        weights[weak] = pfsp_weights(against.win_rates[weak], "hard", mixture.power)
    rule = f"hard, power {mixture.power:g}"
    return _branch(VERIFICATION, mixture.verification_share, rule, weights, weak, wanted)


def _forgotten_past(against: Opposition) -> BoolArray:
    """Return (K,) true for own snapshots but the newest ones, as far back as each is no easier than the one before.

    That the newest are the hardest is as it should be and nothing forgotten.
    """
    own = np.flatnonzero(against.frozen & (against.lineage == against.own))
    in_order = own[np.argsort(against.step[own], kind="stable")]
    easier = np.flatnonzero(np.diff(against.win_rates[in_order]) > 0.0)  # the later of two is beaten more often
    past = np.zeros_like(against.live)
    past[in_order[: easier[-1] + 2 if easier.size else 0]] = True
    return past


def _branch(name: str, share: float, rule: str, weights: FloatArray, met: BoolArray, wanted: str) -> Branch:
    return Branch(name=name, share=share, rule=rule, weights=weights, excluded=~met, filter=wanted)


def _require_shares(config: object, names: tuple[str, ...]) -> None:
    for name in names:
        require_share(name, getattr(config, name))
