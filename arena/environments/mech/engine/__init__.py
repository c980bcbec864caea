"""Engines that step a batch of mech matches: kernels match by match on a CPU, captured graphs of stages on a GPU."""

import torch

from arena.environments.mech.engine.stepping import Engine, Structs
from arena.environments.spec import EnvironmentSpec

__all__ = ["Engine", "Structs", "make_stepping"]


def make_stepping(structs: Structs, spec: EnvironmentSpec, num_envs: int, device: torch.device) -> Engine:
    """Return the engine that steps a batch on the device."""
    # Imported here: kernels of the other device need not be compiled.
    if device.type == "cuda":
        from arena.environments.mech.engine.cuda import CudaEngine

        return CudaEngine(structs, spec, num_envs, device)
    from arena.environments.mech.engine.cpu import HostStepping

    return HostStepping(structs, spec, num_envs)
