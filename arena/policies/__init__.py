"""Policies: the protocol, the recurrent network, its checkpoint format and scripted baselines."""

from arena.policies.checkpoint import load, save
from arena.policies.network_policy import NetworkPolicy
from arena.policies.nn.actor_critic import ActorCritic
from arena.policies.nn.architecture import Architecture, CoreKind
from arena.policies.nn.mlp import EncoderKind
from arena.policies.nn.packed_runs import PackedRuns, RecurrentState
from arena.policies.protocol import Policy, State

__all__ = [
    "ActorCritic",
    "Architecture",
    "CoreKind",
    "EncoderKind",
    "NetworkPolicy",
    "PackedRuns",
    "Policy",
    "RecurrentState",
    "State",
    "load",
    "save",
]
