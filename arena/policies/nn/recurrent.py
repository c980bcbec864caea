"""Recurrent cores: an LSTM, or a feed-forward layer without memory."""

import functools

import torch
from jaxtyping import Float
from torch import Tensor, nn

from arena.errors import ArenaError
from arena.policies.nn.packed_runs import PackedRuns, RecurrentState


class LSTMCore(nn.Module):
    """An LSTM core: one explicit cell per decision while acting, one call over all runs while learning."""

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
        after = lstm_cell(gates, state.cell)
        return after.hidden, after

    def sequence(self, features: Float[Tensor, "N F"], state: RecurrentState, runs: PackedRuns) -> Float[Tensor, "N H"]:
        """Unroll S packed runs from their initial states, through which no gradient flows.

        Uses the native kernel if it supports this width and device, otherwise `nn.LSTM` over padded runs.
        """
        if features.device.type != "cpu" or not has_native_lstm(self.state_size):
            return self._padded(features, state, runs)
        from arena.policies.nn import native_lstm  # imported late, see `_load_native`

        half = torch.is_autocast_enabled("cpu") and has_bfloat16_lstm(features.shape[1])
        weight_ih, weight_hh, bias_ih, bias_hh = self.lstm.all_weights[0]
        return native_lstm.lstm_over_runs(
            features.float(), *state, weight_ih, weight_hh, bias_ih + bias_hh, runs.first, half
        )

    def hidden_states(
        self, features: Float[Tensor, "N F"], state: RecurrentState, runs: PackedRuns
    ) -> Float[Tensor, "N H"]:
        """Return the hidden state after every decision, which is the output of `sequence`."""
        return self.sequence(features, state, runs)

    def _padded(self, features: Tensor, state: RecurrentState, runs: PackedRuns) -> Tensor:
        hidden, cell = (part.detach().unsqueeze(0) for part in state)
        rows = hidden.shape[1]
        padded = features.new_zeros(runs.steps * rows, features.shape[1]).index_copy(0, runs.padded_index, features)
        output = self._run(padded.view(runs.steps, rows, -1), hidden, cell)
        decisions: Tensor = output.flatten(0, 1).index_select(0, runs.padded_index)
        return decisions

    def _run(self, padded: Tensor, hidden: Tensor, cell: Tensor) -> Tensor:
        """Output (L, S, H) of the LSTM in the precision selected by autocast."""
        device = padded.device.type
        output: Tensor
        if not casts_lstm_to_float16(device):
            output, _ = self.lstm(padded, (hidden, cell))
            return output
        dtype = torch.get_autocast_dtype(device)
        with torch.autocast(device, enabled=False):
            weights = self._cast_weights(dtype)
            state = hidden.to(dtype), cell.to(dtype)
            # As `nn.LSTM` calls it: biases, one layer, no dropout. In training, cuDNN stores data for backward.
            output, *_ = torch.lstm(padded.to(dtype), state, weights, True, 1, 0.0, self.training, False, False)
        return output

    def _cast_weights(self, dtype: torch.dtype) -> list[Tensor]:
        """Cast the weights into one contiguous buffer.

        cuDNN expects this layout, matrices before biases. With any other layout it warns and copies the weights at
        every call. `torch.func.functional_call` would make `nn.LSTM` flatten its own weights again at every call.
        """
        weights = self.lstm.all_weights[0]
        row = torch.cat([weight.flatten() for weight in weights]).to(dtype)
        pieces = torch.split(row, [weight.numel() for weight in weights])
        return [piece.view(weight.shape) for piece, weight in zip(pieces, weights, strict=True)]


def lstm_cell(gates: Float[Tensor, "R gates"], cell: Float[Tensor, "R H"]) -> RecurrentState:
    """Apply the LSTM cell to its gates before activation: input, forget, cell and output."""
    # One sigmoid over all gates: on a GPU, the launch of a kernel takes longer than the gate that needs none.
    enter, forget, _, leave = torch.sigmoid(gates).chunk(4, dim=-1)
    after = torch.addcmul(forget * cell, enter, torch.tanh(gates.chunk(4, dim=-1)[2]))
    return RecurrentState(leave * torch.tanh(after), after)


class FeedforwardCore(nn.Module):
    """A feed-forward core: a linear layer and tanh in place of the LSTM."""

    state_size = 0

    def __init__(self, input_size: int, output_size: int) -> None:
        super().__init__()
        self.layer = orthogonal_linear(input_size, output_size, gain=2.0**0.5)

    def step(self, features: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Map (R, F) to (R, H)."""
        return torch.tanh(self.layer(features)), state

    def sequence(self, features: Float[Tensor, "N F"], state: RecurrentState, runs: PackedRuns) -> Float[Tensor, "N H"]:
        """Map (N, F) to (N, H)."""
        return torch.tanh(self.layer(features))

    def hidden_states(
        self, features: Float[Tensor, "N F"], state: RecurrentState, runs: PackedRuns
    ) -> Float[Tensor, "N H"]:
        """Return the output of `sequence`, since this core has no hidden state."""
        return self.sequence(features, state, runs)


def casts_lstm_to_float16(device: str) -> bool:
    """Whether torch would run an LSTM in float16 here, regardless of the dtype set for autocast.

    On a GPU, torch's autocast of cuDNN's RNNs (`AutocastRNN.cpp` in ATen) casts input, state and weights to float16 and
    ignores the configured dtype. Without loss scaling, small gradients then underflow to 0. bfloat16 has the range of
    float32 and needs no loss scaling.
    """
    return device == "cuda" and torch.is_autocast_enabled(device)


def has_native_lstm(units: int) -> bool:
    """Whether the native LSTM loads on this machine and supports this number of units."""
    if not _load_native():
        return False
    from arena.policies.nn import native_lstm

    return units % native_lstm.PANEL == 0


def has_bfloat16_lstm(inputs: int) -> bool:
    """Whether the native LSTM can multiply in bfloat16 here; the number of inputs must be even."""
    from arena.policies.nn import native_lstm

    return native_lstm.supports_bfloat16() and inputs % 2 == 0


@functools.cache
def _load_native() -> bool:
    try:
        # Imported here because only training on a CPU needs the compiled kernels.
        from arena.policies.nn import native_lstm  # noqa: F401  the import registers the operators
    except ArenaError:
        return False
    return True


def orthogonal_linear(inputs: int, outputs: int, *, gain: float) -> nn.Linear:
    """Return a linear layer with orthogonal weights of the given gain and zero bias."""
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
