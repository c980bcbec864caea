"""Verification of an environment: runs all checks in the order of the report."""

from collections.abc import Iterator

import torch

from arena.conformance import determinism_checks, misuse_checks, result_checks, spec_checks
from arena.conformance.check import Check, check, describe
from arena.conformance.random_play import OBSERVATION_CHECKS, STEP_CHECKS, RandomPlay
from arena.conformance.report import Finding, Report, Verdict
from arena.conformance.side_effects import blocking_threads, side_effects
from arena.conformance.trial import Progress, Trial
from arena.environments import declare, make
from arena.errors import ArenaError


@check("speed")
def speed(trial: Trial) -> str:
    """No requirement."""
    pace = trial.decisions / trial.stepping_s
    return f"{pace:,.0f} decisions per second of {trial.num_envs} parallel matches"


COMPARISONS = (
    *determinism_checks.REPRODUCTIONS,
    determinism_checks.chance,
    misuse_checks.illegal_actions,
    misuse_checks.invalid_calls,
    result_checks.step_limit,
    result_checks.sides,
    result_checks.scores_and_rewards,
    side_effects,
)
"""Checks that need a playable environment."""

TABLE: tuple[Check, ...] = (
    *spec_checks.CHECKS,
    *OBSERVATION_CHECKS,
    *STEP_CHECKS,
    *COMPARISONS,
    speed,
)
"""All checks, in the order of the report."""


def verify(name: str, *, matches: int, seed: int, progress: Progress) -> Report:
    """Check an environment against the environment contract.

    Args:
        name: Name of the environment, see `arena.environments.make`.
        matches: Number of matches between random players, at least 1.
        seed: Seed from which all other seeds are derived.
        progress: Shows the progress.

    Raises:
        UnknownEnvironmentError: No environment has that name.
        ArenaError: The environment is rejected; the message contains the reason.
    """
    threads = blocking_threads()
    with torch.no_grad():
        try:
            env = make(name, num_envs=1, seed=seed)
            again = (declare(name), make(name, num_envs=1, seed=seed + 1).spec)
        except ArenaError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001  whatever a game raises when it is made
            failed = spec_checks.specification.finding(Verdict.FAILED, f"it cannot be created: {describe(error)}")
            return Report(name, None, 0, seed, None, _complete([failed]))
        trial = Trial(name, env, matches, seed, progress, threads)
        findings = [spec_checks.specification.run(env.spec, *again)]
        signature = None if findings[0].broken else env.spec.signature
        if signature:
            findings += _run_checks(trial)
    pace = trial.decisions / trial.stepping_s if trial.stepping_s else None
    return Report(name, signature, len(trial.results), seed, pace, _complete(findings))


def _run_checks(trial: Trial) -> Iterator[Finding]:
    """Run all checks but the first, up to a violation of a stopping rule."""
    for each in spec_checks.CHECKS[1:]:
        finding = each.run(trial)
        yield finding
        if finding.broken:
            return
    yield from RandomPlay(trial).play()
    if trial.stopping:
        return
    with trial.progress("matches played twice", len(COMPARISONS)) as advance:
        for each in COMPARISONS:
            if each in determinism_checks.REPRODUCTIONS and not trial.spec.reproducible:
                yield each.finding(Verdict.NOT_APPLICABLE, "it declares reproducible=False")
            else:
                yield each.run(trial)
            advance(1)
    yield speed.finding(Verdict.INFO, speed.function(trial) or "")


def _complete(findings: list[Finding]) -> tuple[Finding, ...]:
    """Return the findings and a row for each check that was not reached."""
    rest = TABLE[len(findings) :]
    stopping = next((each.name for each, row in zip(TABLE, findings, strict=False) if each.stops and row.broken), "")
    return (*findings, *(each.finding(Verdict.NOT_REACHED, f"{stopping!r} failed") for each in rest))
