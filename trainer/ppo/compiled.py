"""The way to the loss through torch.compile, which must never be the end of a run."""

import logging
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

import torch

from arena.policies.nn.recurrent import has_bfloat16_lstm, has_native_lstm

MOST_GRAPHS = 64
"""Most graphs of the way to the loss: parts of one run or decision, or without idle ones, have graphs of their own."""

P = ParamSpec("P")
R = TypeVar("R")

logger = logging.getLogger(__name__)


class CompiledOrEager(Generic[P, R]):
    """A function in one graph, for as long as that can be had; the network's modules are left as they are.

    Args:
        function: It changes nothing, or could not be begun anew.
        backend: Of torch.compile.
        otherwise: Takes its place where it does not compile, or has more graphs than `MOST_GRAPHS`.

    Attributes:
        given_up: Whether that has happened.
    """

    def __init__(self, function: Callable[P, R], backend: str, otherwise: Callable[P, R]) -> None:
        # Imported here: it takes longer than all else that a trainer starts with.
        import torch._dynamo

        torch._dynamo.config.allow_rnn = True
        torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, MOST_GRAPHS)
        for of_this_machine in (has_native_lstm, has_bfloat16_lstm):
            torch.compiler.assume_constant_result(of_this_machine)  # type: ignore[no-untyped-call]
        self.given_up = False
        self._backend, self._otherwise = backend, otherwise
        self._compiled = torch.compile(function, fullgraph=True, backend=backend)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """What the function gives."""
        if not self.given_up:
            try:
                return self._compiled(*args, **kwargs)
            except (torch._dynamo.exc.BackendCompilerFailed, torch._dynamo.exc.FailOnRecompileLimitHit) as error:
                self.given_up = True
                logger.warning(
                    "ppo.compile is %r, which does not work here (%s): nothing is lost, but updates go on uncompiled; "
                    "set it to none to skip the attempt",
                    self._backend,
                    _reason(error),
                )
        return self._otherwise(*args, **kwargs)


def _reason(error: Exception) -> str:
    if isinstance(error, torch._dynamo.exc.FailOnRecompileLimitHit):
        return f"it takes more than {torch._dynamo.config.recompile_limit} graphs"
    return f"{type(error).__name__}: {error}".splitlines()[0]
