"""Networks of many shapes, several of them side by side in one call, and what they see."""

from dataclasses import replace

import torch

from arena.environments.base import Observation
from arena.environments.spec import ActionHead, HeadKind
from arena.policies import ActorCritic, Architecture, CoreKind, RecurrentState
from arena.policies.ensemble.ensemble import PolicyEnsemble
from arena.policies.ensemble.native_backend import NativeBackend
from arena.policies.ensemble.torch_backend import TorchBackend
from arena.policies.nn.mlp import EncoderKind
from arena.policies.nn.set_encoder import SetLayout

HEADS = (
    ActionHead("move", HeadKind.GAUSSIAN, 3, masked=True),
    ActionHead("trigger", HeadKind.BERNOULLI, 5, masked=True),
    ActionHead("target", HeadKind.CATEGORICAL, 6, masked=True),
    ActionHead("switch", HeadKind.BERNOULLI, 1, masked=False),
    ActionHead("comm", HeadKind.GAUSSIAN, 2, masked=False),
)
SMALL = Architecture(19, HEADS, EncoderKind.TANH, (32,), CoreKind.LSTM, 16, -0.5, ())
RECTIFIED = replace(SMALL, encoder=EncoderKind.RELU_NORM)
SETS = (
    SetLayout(members=3, mask=1, blocks=((4, 2), (11, 1)), heads=("target",), width=8),
    SetLayout(members=2, mask=14, blocks=((16, 1),), heads=(), width=5),
)
ARCHITECTURES = {
    "one encoder layer": SMALL,
    "two uneven encoder layers": replace(SMALL, encoder_sizes=(70, 33), recurrent_size=48),
    "no encoder": replace(SMALL, encoder_sizes=()),
    "no memory": replace(SMALL, core=CoreKind.FEEDFORWARD, recurrent_size=32),
    "one rectified layer": RECTIFIED,
    "two uneven rectified layers": replace(RECTIFIED, encoder_sizes=(70, 33), recurrent_size=48),
    "rectified without memory": replace(RECTIFIED, core=CoreKind.FEEDFORWARD, recurrent_size=32),
    "many heads": replace(SMALL, heads=(*HEADS, ActionHead("choice", HeadKind.CATEGORICAL, 90, masked=True))),
}
WITH_SETS = {
    "sets": replace(RECTIFIED, sets=SETS),
    "sets and two layers with tanh": replace(SMALL, sets=SETS, encoder_sizes=(32, 16)),
    "sets and no encoder, without memory": replace(RECTIFIED, sets=SETS, encoder_sizes=(), core=CoreKind.FEEDFORWARD),
}
CPU = torch.device("cpu")
CLOSE = {"atol": 1e-5, "rtol": 0.0}
SLOTS = 4


def network_of(architecture: Architecture, seed: int) -> ActorCritic:
    """A network whose every number was moved away from where it began."""
    torch.manual_seed(seed)
    network = ActorCritic(architecture).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    network.observation_mean.normal_()
    network.observation_std.uniform_(0.5, 2.0)
    return network


def networks_of(architecture: Architecture, slots: int = SLOTS) -> list[ActorCritic]:
    return [network_of(architecture, seed) for seed in range(slots)]


def observation_of(architecture: Architecture, rows: int) -> Observation:
    masks = {head.name: torch.rand(rows, head.size) < 0.6 for head in architecture.heads if head.masked}
    for mask in masks.values():
        mask[:, 0] = True
    return Observation(3.0 * torch.randn(rows, architecture.observation_size), masks, torch.rand(rows) < 0.8)


def state_of(network: ActorCritic, rows: int) -> RecurrentState:
    """A state that some history has left behind."""
    return RecurrentState(*(torch.tanh(torch.randn_like(part)) for part in network.initial_state(rows)))


def rows_of(state: RecurrentState, rows: torch.Tensor) -> RecurrentState:
    return RecurrentState(*(part[rows] for part in state))


def stack_of(networks: list[ActorCritic]) -> PolicyEnsemble:
    stack = PolicyEnsemble(networks[0].architecture, len(networks), CPU)
    for slot, network in enumerate(networks):
        stack.put(slot, network)
    return stack


def filled(together: NativeBackend | TorchBackend, networks: list[ActorCritic]) -> NativeBackend | TorchBackend:
    for slot, network in enumerate(networks):
        together.put(slot, network)
    return together


def native(networks: list[ActorCritic]) -> NativeBackend | TorchBackend:
    return filled(NativeBackend(networks[0].architecture, len(networks)), networks)


def batched(networks: list[ActorCritic]) -> NativeBackend | TorchBackend:
    return filled(TorchBackend(networks[0].architecture, len(networks), CPU), networks)
