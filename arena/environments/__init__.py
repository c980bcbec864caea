"""Environments: specs, the batched step interface, and the registry. Importing this package does not load torch."""

from arena.environments.registry import (
    baselines,
    declare,
    declare_all,
    make,
    make_baseline,
    names,
    plugin_baselines,
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
    "declare",
    "declare_all",
    "make",
    "make_baseline",
    "names",
    "plugin_baselines",
    "split_rounds",
]
