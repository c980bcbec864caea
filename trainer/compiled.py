"""torch.compile with a fallback to the eager function, so that a compiler error never ends a run."""

import logging
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

import torch

MAX_GRAPHS = 64
"""Limit of recompilations: micro-batches of one sequence or sample, or without padding, have graphs of their own."""

P = ParamSpec("P")
R = TypeVar("R")

logger = logging.getLogger(__name__)


def compile_graph(function: Callable[P, R], backend: str) -> Callable[P, R]:
    """Return the function under torch.compile, as one full graph."""
    # Imported here, because it takes longer than all other imports of a trainer.
    import torch._dynamo

    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, MAX_GRAPHS)
    # A decision of an LSTM core reads the weights of `nn.LSTM`, which torch.compile refuses without this.
    torch._dynamo.config.allow_rnn = True
    return torch.compile(function, fullgraph=True, backend=backend)


class CompiledOrEager(Generic[P, R]):
    """A function that calls compiled graphs; the fallback replaces it after the first compiler error.

    Args:
        compiled: A function that may be called twice, because a failed call is repeated by the fallback.
        backend: Backend of torch.compile, for the warning.
        fallback: Used if the function cannot be compiled as one graph, the backend fails, or more than `MAX_GRAPHS`
            graphs are needed.
        work: Name of the work in the plural, for the warning.

    Attributes:
        fell_back: Whether the fallback is in use.
    """

    def __init__(self, compiled: Callable[P, R], backend: str, fallback: Callable[P, R], work: str = "updates") -> None:
        self.fell_back = False
        self._compiled, self._backend, self._fallback, self._work = compiled, backend, fallback, work

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the compiled function, or the fallback."""
        if not self.fell_back:
            try:
                return self._compiled(*args, **kwargs)
            except (torch._dynamo.exc.TorchDynamoException, torch._dynamo.exc.FailOnRecompileLimitHit) as error:
                self.fell_back = True
                logger.warning(
                    "ppo.compile is %r, which does not work here (%s): %s continue without compilation and lose "
                    "nothing; set it to none to skip the attempt",
                    self._backend,
                    _reason(error),
                    self._work,
                )
        return self._fallback(*args, **kwargs)


def _reason(error: Exception) -> str:
    if isinstance(error, torch._dynamo.exc.FailOnRecompileLimitHit):
        return f"it needs more than {torch._dynamo.config.recompile_limit} graphs"
    return f"{type(error).__name__}: {error}".splitlines()[0]
