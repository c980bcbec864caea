"""What is asked of any game while it is played: numbers that are finite, and that it does not end the program."""

import math
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from arena.environments.base import Environment, Observation, StepResult
from arena.errors import ArenaError, GameError


@contextmanager
def forbid_exit(name: str) -> Iterator[None]:
    """Run a game's code, which may fail but not leave: `sys.exit` in it would end a whole run without a word.

    Raises:
        ArenaError: It raised what is no `Exception`, such as `SystemExit`; Ctrl-C ends programs as ever.
    """
    try:
        yield
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = "; ".join((*getattr(error, "__notes__", ()), f"{place.filename}, line {place.lineno}"))
        raise GameError(
            f"{name} raises {type(error).__name__}({error}) ({where}), which would end the program: let it end the "
            "match instead, or raise an Exception where something is wrong"
        ) from error


def require_finite(env: Environment, seen: Observation, step: StepResult | None = None, *, first: int = 0) -> None:
    """Refuse what policies cannot make sense of, before anything is learned from it or scored by it.

    A sum over all matches shows that something is wrong; what it is, is looked for only then.

    Args:
        env: Whose observation it is.
        seen: What agents perceive now, or perceived last.
        step: What came of the decision before; None where none was made.
        first: Number of the environment's first match among those that are played.

    Raises:
        ArenaError: There is NaN or infinity in what agents are shown or paid.
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
    """Name the match and the decision; `env.seeds` are those of matches that were opened since."""
    over = step is not None and bool(step.over[row])
    where = f"match {first + row}"
    if opened or not over:
        where += f" (seed {int(env.seeds[row])})"
    if step is None or (opened and over):
        where += ", at its start"
    else:
        where += f", decision {int(step.outcome.decisions[row])}"
    return GameError(
        f"{env.spec.name} {what}, in {where}; every number must be finite: mend the game, and see what else "
        "`arena verify` says of it"
    )
