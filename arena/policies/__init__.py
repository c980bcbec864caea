"""Players: the protocol, the recurrent network, its checkpoint file, scripted baselines."""

from arena.policies.checkpoint import load, save
from arena.policies.cores import RecurrentState, Runs
from arena.policies.encoder import EncoderKind
from arena.policies.network import ActorCritic, Architecture, CoreKind, NetworkPolicy
from arena.policies.protocol import Policy, State

__all__ = [
    "ActorCritic",
    "Architecture",
    "CoreKind",
    "EncoderKind",
    "NetworkPolicy",
    "Policy",
    "RecurrentState",
    "Runs",
    "State",
    "load",
    "save",
]
