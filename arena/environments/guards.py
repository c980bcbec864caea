"""Guards around any game: finite observations and rewards, and no exit of the process."""

import math
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from arena.environments.base import Environment, Observation, StepResult
from arena.errors import ArenaError, GameError


@contextmanager
def forbid_exit(name: str) -> Iterator[None]:
    """Run a game's code and convert exceptions that would end the process, such as `SystemExit`.

    Raises:
        ArenaError: The code raised something that is not an `Exception`. KeyboardInterrupt passes through.
    """
    try:
        yield
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = "; ".join((*getattr(error, "__notes__", ()), f"{frame.filename}, line {frame.lineno}"))
        raise GameError(
            f"{name} raises {type(error).__name__}({error}) ({where}), which would end the program: let it end the "
            "match instead, or raise an Exception where something is wrong"
        ) from error


def require_finite(env: Environment, seen: Observation, step: StepResult | None = None, *, first: int = 0) -> None:
    """Check that observations and rewards are finite, before they are used for learning or scoring.

    The check is one sum over all matches. The offending entry is located only if that fails.

    Args:
        env: The environment.
        seen: Current or final observation.
        step: Result of the decision before. None after a reset.
        first: Number of the environment's first match.

    Raises:
        ArenaError: An observation or reward is NaN or infinite.
    """
    total = seen.values.sum().item() + (0.0 if step is None else step.reward.sum().item())
    if math.isfinite(total):
        return
    found = (~seen.values.isfinite()).nonzero()
    if len(found):
        row, agent, entry = found[0].tolist()
        what = f"shows {env.spec.name_agent(agent)} {seen.values[row, agent, entry]:g}: {env.spec.name_entry(entry)}"
        raise _refusal(env, what, row, step, first, opened=step is None or seen is step.observation)
    if step is not None and len(found := (~step.reward.isfinite()).nonzero()):
        row, agent = found[0].tolist()
        what = f"pays {env.spec.name_agent(agent)} {step.reward[row, agent]:g}"
        raise _refusal(env, what, row, step, first, opened=False)


def _refusal(env: Environment, what: str, row: int, step: StepResult | None, first: int, *, opened: bool) -> ArenaError:
    """Return an error with match and decision; `env.seeds` may already belong to the next matches."""
    over = step is not None and bool(step.over[row])
    where = f"match {first + row}"
    if opened or not over:
        where += f" (seed {int(env.seeds[row])})"
    if step is None or (opened and over):
        where += ", at its start"
    else:
        where += f", decision {int(step.outcome.decisions[row])}"
    return GameError(
        f"{env.spec.name} {what}, in {where}; every number must be finite: fix the game, then run `arena verify`"
    )
