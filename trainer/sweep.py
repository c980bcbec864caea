"""A minibatch's way through the network to its loss, and the way back, in one native call each.

What lies between two native calls, be it little, starts slowly: the products before it have emptied the caches. So all
that a way needs is made ready first, and then runs in one go: first layer, LSTM, readout and loss, and back in the
contrary order, with the gradients of all weights at the end.
"""

import functools
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple, no_type_check

import torch
from jaxtyping import Float
from torch import Tensor

from arena.native import Call, Chain, wp
from arena.policies import ActorCritic, readout, scan, squash, weights
from arena.policies.cores import has_half_scan, has_readout, has_scan
from arena.policies.encoder import EncoderKind
from arena.policies.network import LOG_STD_RANGE, CoreKind
from arena.policies.readout import read_rows
from arena.policies.scan import scan_runs
from arena.policies.squash import squash_rows
from arena.policies.weights import add_weights
from trainer import appraisal
from trainer.appraisal import NativeAppraiser, appraise_decisions
from trainer.figures import Figures
from trainer.objective import Appraisal
from trainer.samples import Samples
from trainer.settings import PPOSettings
from trainer.settings.learning import Precision

wp.set_module_options({"enable_backward": False})


@wp.kernel
@no_type_check
def sweep_forward(
    squash_sizes: wp.array[wp.int32],
    squash_addresses: wp.array[wp.uint64],
    scan_sizes: wp.array[wp.int32],
    scan_addresses: wp.array[wp.uint64],
    read_sizes: wp.array[wp.int32],
    read_addresses: wp.array[wp.uint64],
    appraise_sizes: wp.array[wp.int32],
    appraise_addresses: wp.array[wp.uint64],
) -> None:
    """From observations to the loss."""
    squash_rows(squash_sizes, squash_addresses)
    scan_runs(scan_sizes, scan_addresses)
    read_rows(read_sizes, read_addresses)
    appraise_decisions(appraise_sizes, appraise_addresses)


@wp.kernel
@no_type_check
def sweep_back(
    read_sizes: wp.array[wp.int32],
    read_addresses: wp.array[wp.uint64],
    scan_sizes: wp.array[wp.int32],
    scan_addresses: wp.array[wp.uint64],
    squash_sizes: wp.array[wp.int32],
    squash_addresses: wp.array[wp.uint64],
    layer_sizes: wp.array[wp.int32],
    layer_addresses: wp.array[wp.uint64],
    features_sizes: wp.array[wp.int32],
    features_addresses: wp.array[wp.uint64],
    hidden_sizes: wp.array[wp.int32],
    hidden_addresses: wp.array[wp.uint64],
) -> None:
    """From the loss's gradient of what is read out to that of the weights."""
    read_rows(read_sizes, read_addresses)
    scan_runs(scan_sizes, scan_addresses)
    squash_rows(squash_sizes, squash_addresses)
    add_weights(layer_sizes, layer_addresses)
    add_weights(features_sizes, features_addresses)
    add_weights(hidden_sizes, hidden_addresses)


class Weights(NamedTuple):
    """All that learns in a network that `fits`; the order is that of `_Swept.forward`."""

    encoder: Float[Tensor, "F D"]
    encoder_bias: Float[Tensor, " F"]
    weight_ih: Float[Tensor, "gates F"]
    weight_hh: Float[Tensor, "gates H"]
    bias_ih: Float[Tensor, " gates"]
    bias_hh: Float[Tensor, " gates"]
    scale: Float[Tensor, " H"]
    offset: Float[Tensor, " H"]
    actor: Float[Tensor, "A H"]
    actor_bias: Float[Tensor, " A"]
    critic: Float[Tensor, "1 H"]
    critic_bias: Float[Tensor, " 1"]
    raw_log_std: Float[Tensor, " G"]

    @classmethod
    def of(cls, network: ActorCritic) -> "Weights":
        """Those of a network."""
        in_order = (network.encoder, network.core, network.norm, network.actor, network.critic)
        return cls._make([*(each for part in in_order for each in part.parameters()), network.raw_log_std])


def fits(network: ActorCritic, settings: PPOSettings) -> bool:
    """Whether there is native code for the whole way of a network in the host's memory, in single precision.

    That is one layer that ends in tanh and an LSTM, of widths that native code takes, over observations that are read
    place by place, and nothing predicted.
    """
    known = network.architecture
    if known.encoder is not EncoderKind.TANH or len(known.encoder_sizes) > 1 or not known.is_plain:
        return False
    if settings.auxiliary_weight or settings.recomputed_parts:
        return False
    wide = has_scan(known.recurrent_size) and has_readout(known.recurrent_size)
    return known.core is CoreKind.LSTM and wide and known.encoder_sizes[0] % scan.PANEL == 0


class Sweep:
    """The way of one network that `fits`.

    Args:
        network: Its gradients add up; its parameters stay the same tensors.
        settings: Of the objective.
        appraiser: Of the same settings and the network's layout.
    """

    def __init__(self, network: ActorCritic, settings: PPOSettings, appraiser: NativeAppraiser) -> None:
        self.network, self.appraiser, self.learned = network, appraiser, Weights.of(network)
        known, half = network.architecture, settings.precision is Precision.BFLOAT16
        self.half_layer = half and has_half_scan(known.observation_size)
        self.half_core = half and has_half_scan(known.encoder_sizes[0])

    def __call__(self, samples: Samples, objective: Float[Tensor, " heads_and_1"]) -> tuple[Appraisal, Tensor]:
        """The loss of samples, with gradient, and its figures; and the core's features, without.

        Args:
            samples: The minibatch.
            objective: Weights, as `Objective.weights` says.

        Raises:
            ArenaError: Something has another shape or type than it must have.
        """
        loss, figures, features = _Swept.apply(self, samples, objective, *self.learned)  # type: ignore[no-untyped-call]
        return Appraisal(loss, Figures(figures)), features


class _Swept(torch.autograd.Function):
    """Adds gradients where parameters keep them, and hands none to torch, which would take longer over it."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401  torch's own
        sweep: Sweep,
        samples: Samples,
        objective: Tensor,
        *learned: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        own, network = Weights(*learned), sweep.network
        scales = network.observation_mean, network.observation_std
        to_features, squashed = squash.forward_call(
            samples.seen, *scales, own.encoder, own.encoder_bias, sweep.half_layer
        )
        bias, given = own.bias_ih + own.bias_hh, (samples.state.cell, samples.runs.first)
        gates = (own.weight_ih, own.weight_hh, bias)
        through, passed = scan.forward_call(
            squashed.output, *samples.state, *gates, samples.runs.first, sweep.half_core
        )
        readers = (own.scale, own.offset, own.actor, own.actor_bias, own.critic, own.critic_bias)
        out, outputs = readout.forward_call(passed.output, *readers)
        log_std = own.raw_log_std.clamp(*LOG_STD_RANGE)
        judged, weighed = sweep.appraiser.call(outputs.parameters, outputs.value, log_std, samples, objective)
        _forward()(*((call.sizes, call.addresses) for call in (to_features, through, out, judged)))
        ctx.learned = sweep.learned
        ctx.save_for_backward(*squashed, *passed, outputs.features, outputs.moments, *weighed.gradients, *given, *own)
        ctx.mark_non_differentiable(weighed.figures, outputs.features)
        ctx.set_materialize_grads(False)
        return weighed.loss, weighed.figures, outputs.features

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, by_loss: Tensor, *_: None) -> tuple[None, ...]:  # noqa: ANN401  torch's own
        saved = iter(ctx.saved_tensors)
        squashed, passed = squash.Squashed(*islice(saved, 2)), scan.Passed(*islice(saved, 4))
        features, moments, of_parameters, of_value, of_log_std, cell, first = islice(saved, 7)
        own, gradients = Weights(*saved), Weights._make(_gradient(each) for each in ctx.learned)
        known = (passed.output, own.scale, own.actor, own.critic, features, moments)
        out, of_hidden, of_readers = readout.backward_call(None, of_parameters * by_loss, of_value * by_loss, *known)
        recurrent = own.weight_ih, own.weight_hh
        through, returned = scan.backward_call(
            of_hidden, passed, cell, *recurrent, first, to_features=True, in_place=True
        )
        to_features, of_layer = squash.backward_call(returned.of_features, squashed)
        products = (
            Product(of_layer.sums, squashed.inputs, (gradients.encoder,)),
            Product(returned.sums, passed.inputs, (gradients.weight_ih, gradients.weight_hh)),
        )
        calls = (out, through, to_features, *(call for product in products for call in product.calls()))
        _back()(*((call.sizes, call.addresses) for call in calls))
        for product in products:
            product.add_rest()
        of_gates = returned.of_bias.sum(dim=0)
        low, high = LOG_STD_RANGE
        moves = (own.raw_log_std >= low) & (own.raw_log_std <= high)
        readers = readout.split(of_readers.sum(dim=0), own.actor.shape[1], own.actor.shape[0])
        small = (of_layer.of_bias.sum(dim=0), of_gates, of_gates, *readers, of_log_std * by_loss * moves)
        torch._foreach_add_([gradients.encoder_bias, *gradients[4:]], list(small))
        return (None,) * (3 + len(own))


class Product(NamedTuple):
    """Gradients of weights that were multiplied with neighbouring columns of the same inputs.

    Attributes:
        sums: The loss's gradient of what they were multiplied into (N, outputs).
        inputs: What they were multiplied with (N, columns of all), in the same precision.
        gradients: To be added to, (outputs, columns) each.
    """

    sums: Tensor
    inputs: Tensor
    gradients: tuple[Tensor, ...]

    def calls(self) -> list[Call]:
        """What adds them in native code; nothing in half precision."""
        if self.inputs.dtype is torch.bfloat16:
            return [weights.nothing(each) for each in self.gradients]
        return [weights.call(self.sums, part, each) for part, each in self._parts(self.inputs)]

    def add_rest(self) -> None:
        """Add, in torch, what native code adds nothing of."""
        if self.inputs.dtype is torch.bfloat16:
            for part, each in self._parts(self.sums.t() @ self.inputs):
                each.add_(part)

    def _parts(self, columns: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        widths = [each.shape[1] for each in self.gradients]
        return zip(torch.split(columns, widths, dim=1), self.gradients, strict=True)


def _gradient(parameter: Tensor) -> Tensor:
    """Where the gradient of a parameter adds up."""
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad


@functools.cache
def _forward() -> Chain:
    rooms = [(each.SIZES, each.POINTERS) for each in (squash, scan, readout, appraisal)]
    return Chain(sweep_forward, *rooms)


@functools.cache
def _back() -> Chain:
    rooms = [(each.SIZES, each.POINTERS) for each in (readout, scan, squash, *[weights] * 3)]
    return Chain(sweep_back, *rooms)
