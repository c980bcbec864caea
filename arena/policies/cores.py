"""What carries memory from one decision to the next: an LSTM, or nothing."""

from typing import NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor, nn


class RecurrentState(NamedTuple):
    """LSTM state of R rows, each (R, H); H is 0 in a network without memory."""

    hidden: Tensor
    cell: Tensor


class LSTMCore(nn.Module):
    """An LSTM: a hand-written cell while acting, the fused call over whole chunks while learning."""

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

    def sequence(self, features: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Advance R rows by L steps in one fused call."""
        output, (hidden, cell) = self.lstm(features, (state.hidden.unsqueeze(0), state.cell.unsqueeze(0)))
        return output, RecurrentState(hidden.squeeze(0), cell.squeeze(0))


class FeedforwardCore(nn.Module):
    """No memory: a linear layer and tanh in place of the LSTM."""

    state_size = 0

    def __init__(self, input_size: int, output_size: int) -> None:
        super().__init__()
        self.layer = orthogonal_linear(input_size, output_size, gain=2.0**0.5)

    def step(self, features: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Map (R, F) to (R, H)."""
        return torch.tanh(self.layer(features)), state

    sequence = step


def reset_rows(state: RecurrentState, rows: Bool[Tensor, " R"]) -> RecurrentState:
    """Zero the state of the rows that are true; the others are bit-equal."""
    return RecurrentState(*(part.masked_fill(rows.unsqueeze(-1), 0.0) for part in state))


def orthogonal_linear(inputs: int, outputs: int, *, gain: float) -> nn.Linear:
    """A linear layer with orthogonal weights of a gain and no bias yet."""
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
