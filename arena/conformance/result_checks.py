"""Checks of the results of random play: limits, balance of the sides, and rewards of the winners."""

from arena.conformance.check import NotApplicableError, ViolationError, check
from arena.conformance.report import Verdict
from arena.conformance.trial import Trial
from arena.play.series import score_interval

LEVEL = 0.5
MIN_DECIDED_MATCHES = 10
"""Smallest number of matches with a winner and unequal returns for a comparison of scores with rewards."""


@check("step limit", severity=Verdict.WARNING)
def step_limit(trial: Trial) -> str:
    """At least some matches end by the rules of the game: a truncated match is scored as it is and treated as
    unfinished in training.

    Remedy: let the game end matches (terminated), or raise its limit. If the limit is a rule of the game, terminate
    there or declare limit_decides=True. Nothing is wrong if only random players never finish.
    """
    if trial.spec.limit_decides:
        raise NotApplicableError("its limit decides matches")
    results = trial.results
    if by_rules := sum(not result.cut for result in results):
        return f"{by_rules} of {len(results)} matches ended by the game's rules"
    lengths = [result.decisions for result in results]
    span = f"{min(lengths):,} to {max(lengths):,}"
    raise ViolationError(f"all {len(results)} matches were truncated, after {span} decisions")


@check("sides", severity=Verdict.WARNING)
def sides(trial: Trial) -> str:
    """Between equally strong players, like sides score the same, unless one of them has an advantage such as the first
    move.

    Remedy: if one side has an advantage by the rules, pass alike_sides=False to TwoSided or TensorGame, so that players
    are rated per side. Otherwise try more --matches and another --seed (one in twenty balanced games gets this warning
    by chance), then correct the game. Rated matches swap sides in any case.
    """
    results, unlike = trial.results, trial.spec.unlike_sides
    score = sum(result.score for result in results) / len(results)
    low, high = score_interval(score, len(results))
    detail = f"home scores {score:.3f} ({low:.3f} to {high:.3f}) of {len(results)} matches of equal players"
    if unlike is not None:
        raise NotApplicableError(f"{' and '.join(unlike)} are rated separately; {detail}")
    if not low <= LEVEL <= high:
        raise ViolationError(detail)
    return detail


@check("scores and rewards", severity=Verdict.WARNING)
def scores_and_rewards(trial: Trial) -> str:
    """The winner earns more reward: players learn from rewards but are rated by scores.

    Remedy: check whether sides or signs are swapped, and whether the reward is for winning.
    """
    results = trial.results
    decided = [result for result in results if result.score != LEVEL and result.margin != 0.0]
    if len(decided) < MIN_DECIDED_MATCHES:
        raise NotApplicableError(f"only {len(decided)} of {len(results)} matches had a winner and unequal rewards")
    agreeing = sum((result.score > LEVEL) == (result.margin > 0.0) for result in decided)
    detail = f"the winner earned more in {agreeing} of {len(decided)} matches"
    _, high = score_interval(agreeing / len(decided), len(decided))
    if high < LEVEL:
        raise ViolationError(detail)
    return detail
