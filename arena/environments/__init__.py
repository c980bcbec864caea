"""Environments: specs, the batched step interface, and the registry. Importing this package does not load torch."""

from arena.environments.registry import (
    baselines,
    brought_baselines,
    declare,
    declare_all,
    make,
    make_baseline,
    names,
    split_rounds,
)
from arena.environments.spec import (
    ActionHead,
    Channels,
    ChoiceBlock,
    EnvironmentSpec,
    HeadKind,
    ImageBlock,
    MemberMask,
    ObservationBlock,
    RoundsSpec,
)

__all__ = [
    "ActionHead",
    "Channels",
    "ChoiceBlock",
    "EnvironmentSpec",
    "HeadKind",
    "ImageBlock",
    "MemberMask",
    "ObservationBlock",
    "RoundsSpec",
    "baselines",
    "brought_baselines",
    "declare",
    "declare_all",
    "make",
    "make_baseline",
    "names",
    "split_rounds",
]
