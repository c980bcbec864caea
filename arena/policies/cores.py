"""What carries memory from one decision to the next: an LSTM, or nothing."""

import functools
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from arena.errors import ArenaError

SCANNED_UNITS = 64
"""Native code takes multiples of so many units through runs."""

READ_UNITS = 16
"""It reads out multiples of so many."""


class RecurrentState(NamedTuple):
    """LSTM state of R rows, each (R, H); H is 0 in a network without memory."""

    hidden: Tensor
    cell: Tensor


class Runs(NamedTuple):
    """How N decisions make up S runs of at most L, in which every decision continues the one before it.

    Decisions lie step by step: first those that open a run, then those that come second, and so on; the longest runs
    come first, so that run r's decision at step t is row first[t] + r.

    Attributes:
        first: Row of the first decision of every step, and N (L + 1).
        place: Position t * S + r of each decision in runs that are padded to L (N).
    """

    first: Tensor
    place: Tensor

    @classmethod
    def of(cls, lengths: Int[Tensor, " S"], steps: int) -> "Runs":
        """Runs of these lengths, the longest first, of at most `steps` decisions."""
        inside = torch.arange(steps, device=lengths.device).unsqueeze(1) < lengths
        first = F.pad(inside.sum(dim=1).cumsum(0), (1, 0)).int()
        return cls(first, inside.flatten().nonzero().squeeze(1))

    @property
    def steps(self) -> int:
        """L."""
        return len(self.first) - 1

    def part(self, begin: int, end: int) -> "tuple[Tensor, Runs]":
        """Runs `begin` to `end`, and the rows of their decisions among those of all runs."""
        sizes = self.first.diff()
        step, run = self.place // sizes[0], self.place % sizes[0]
        rows = ((run >= begin) & (run < end)).nonzero().squeeze(1)
        first = F.pad((sizes.clamp(max=end) - begin).clamp(min=0).cumsum(0), (1, 0)).int()
        return rows, Runs(first, (step * (end - begin) + run - begin).index_select(0, rows))


class LSTMCore(nn.Module):
    """An LSTM: a hand-written cell while acting, all runs together while learning."""

    def __init__(self, input_size: int, recurrent_size: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(input_size, recurrent_size)
        self.state_size = recurrent_size
        weight_ih, weight_hh, bias_ih, bias_hh = self.lstm.all_weights[0]
        for gate in (*torch.split(weight_ih.data, recurrent_size), *torch.split(weight_hh.data, recurrent_size)):
            nn.init.orthogonal_(gate)
        nn.init.zeros_(bias_ih)
        nn.init.zeros_(bias_hh)
        bias_ih.data[recurrent_size : 2 * recurrent_size] = 1.0  # the forget gate's two biases add up to 1

    def step(self, features: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Advance R rows by one step."""
        weight_ih, weight_hh, bias_ih, bias_hh = self.lstm.all_weights[0]
        gates = torch.addmm(bias_ih + bias_hh, features, weight_ih.t())
        gates = torch.addmm(gates, state.hidden, weight_hh.t())
        enter, forget, new, leave = gates.chunk(4, dim=-1)
        cell = torch.sigmoid(forget) * state.cell + torch.sigmoid(enter) * torch.tanh(new)
        hidden = torch.sigmoid(leave) * torch.tanh(cell)
        return hidden, RecurrentState(hidden, cell)

    def sequence(self, features: Float[Tensor, "N F"], state: RecurrentState, runs: Runs) -> Float[Tensor, "N H"]:
        """Take S runs from their states through all their decisions; gradients end at those states.

        In native code where it runs; elsewhere in one fused call over runs that are padded to the longest.
        """
        if features.device.type != "cpu" or not has_scan(self.state_size):
            return self._padded(features, state, runs)
        from arena.policies import scan  # here: see `_load_native`

        half = torch.is_autocast_enabled("cpu") and has_half_scan(features.shape[1])
        weight_ih, weight_hh, bias_ih, bias_hh = self.lstm.all_weights[0]
        return scan.take(features.float(), *state, weight_ih, weight_hh, bias_ih + bias_hh, runs.first, half)

    def remember(self, features: Float[Tensor, "N F"], state: RecurrentState, runs: Runs) -> Float[Tensor, "N H"]:
        """Hidden state after all decisions of runs, which is what `sequence` gives."""
        return self.sequence(features, state, runs)

    def _padded(self, features: Tensor, state: RecurrentState, runs: Runs) -> Tensor:
        hidden, cell = (part.detach().unsqueeze(0) for part in state)
        rows = hidden.shape[1]
        padded = features.new_zeros(runs.steps * rows, features.shape[1]).index_copy(0, runs.place, features)
        output, _ = self.lstm(padded.view(runs.steps, rows, -1), (hidden, cell))
        decisions: Tensor = output.flatten(0, 1).index_select(0, runs.place)
        return decisions


class FeedforwardCore(nn.Module):
    """No memory: a linear layer and tanh in place of the LSTM."""

    state_size = 0

    def __init__(self, input_size: int, output_size: int) -> None:
        super().__init__()
        self.layer = orthogonal_linear(input_size, output_size, gain=2.0**0.5)

    def step(self, features: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Map (R, F) to (R, H)."""
        return torch.tanh(self.layer(features)), state

    def sequence(self, features: Float[Tensor, "N F"], state: RecurrentState, runs: Runs) -> Float[Tensor, "N H"]:
        """Map (N, F) to (N, H)."""
        return torch.tanh(self.layer(features))

    def remember(self, features: Float[Tensor, "N F"], state: RecurrentState, runs: Runs) -> Float[Tensor, "N H"]:
        """There is nothing to remember: what `sequence` gives."""
        return self.sequence(features, state, runs)


def has_scan(units: int) -> bool:
    """Whether native code can take an LSTM of that many units through runs on this machine's processor."""
    return _load_native() and units % SCANNED_UNITS == 0


def has_readout(units: int) -> bool:
    """Whether native code can read out that many units on this machine's processor."""
    return _load_native() and units % READ_UNITS == 0


def has_half_scan(inputs: int) -> bool:
    """Whether that native code can multiply so many inputs in bfloat16 here."""
    from arena.policies import scan

    return scan.has_half() and inputs % 2 == 0


@functools.cache
def _load_native() -> bool:
    try:
        # Imported here: whoever does not learn on a CPU needs no kernels.
        from arena.policies import readout, scan  # noqa: F401  they register their operators
    except ArenaError:
        return False
    return True


def reset_rows(state: RecurrentState, rows: Bool[Tensor, " R"]) -> RecurrentState:
    """Zero the state of the rows that are true; the others are bit-equal."""
    return RecurrentState(*(part.masked_fill(rows.unsqueeze(-1), 0.0) for part in state))


def orthogonal_linear(inputs: int, outputs: int, *, gain: float) -> nn.Linear:
    """A linear layer with orthogonal weights of a gain and no bias yet."""
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
