"""Start-up under torchrun: the process group, and each rank's share of the settings."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

from arena.seeding import derive
from league.process.die_with_parent import die_with_parent
from trainer.config.schema import TrainerConfig
from trainer.errors import ConfigError, RankLostError
from trainer.process_group import SINGLE_PROCESS, ProcessGroup, TorchProcessGroup

OWN_STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
"""Environment variable: torchrun opens a new store for each start of its ranks; see `require_own_store`."""

BLOCKING_WAIT = "TORCH_NCCL_BLOCKING_WAIT"
"""Environment variable: NCCL calls block the host until they are done, and raise there; see `start_group`."""


@dataclass(frozen=True)
class RankInfo:
    """Rank of this process, as torchrun assigned it.

    Attributes:
        rank: Global rank, from 0.
        world_size: Number of ranks.
        local_rank: Rank on this machine, from 0, which is also the index of its GPU.
        local_world_size: Number of ranks on this machine.
    """

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int


SINGLE_RANK = RankInfo(0, 1, 0, 1)


def rank_info(environ: Mapping[str, str]) -> RankInfo:
    """Read the rank from torchrun's variables; `SINGLE_RANK` without torchrun or with one process."""
    if "TORCHELASTIC_RUN_ID" not in environ:
        return SINGLE_RANK
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    info = RankInfo(*(int(environ[name]) for name in names))
    return info if info.world_size > 1 else SINGLE_RANK


def shard_config(config: TrainerConfig, info: RankInfo) -> TrainerConfig:
    """This rank's share of the settings: its environments, and its own GPU if the device is `cuda`.

    Raises:
        ConfigError: The environments cannot be divided evenly, or the settings name one GPU for all ranks.
    """
    if info.world_size == 1:
        return config
    run, played = config.run, config.environment
    share, rest = divmod(played.num_envs, info.world_size)
    if rest:
        near = info.world_size * max(share, 1)
        raise ConfigError(
            f"environment.num_envs is {played.num_envs}, which {info.world_size} ranks cannot share evenly: "
            f"set it to {near} or {near + info.world_size}, or change the number of ranks (--nproc-per-node and "
            "--nnodes of torchrun, --gpus-per-trainer of a fleet)"
        )
    device = run.device
    if device.startswith("cuda:") and info.local_world_size > 1:
        raise ConfigError(
            f"run.device is {device}, but {info.local_world_size} ranks of this machine need one GPU each: "
            "set it to cuda, and every rank takes its own"
        )
    if device == "cuda":
        device = f"cuda:{info.local_rank}"
    return config.model_copy(
        update={
            "run": run.model_copy(update={"device": device}),
            "environment": played.model_copy(update={"num_envs": share}),
        }
    )


def rank_seed(seed: int, number: int) -> int:
    """Seed of a rank's environments: the run's seed on rank 0, a derived one on every other."""
    return derive(seed, "rank", number) if number else seed


@contextmanager
def process_group(info: RankInfo, config: TrainerConfig, version: str) -> Iterator[ProcessGroup]:
    """Initialise the process group for the block, and check that all ranks have the same settings and versions.

    Ranks get SIGTERM when their torchrun ends for any reason, so that none continues alone with the run directory.

    Args:
        info: Rank of this process.
        config: This rank's share of the settings.
        version: Version of this program.

    Raises:
        RankLostError: Not all ranks connected in time.
        ConfigError: Settings or versions differ from rank 0's, or torchrun would give restarted ranks a stale store.
    """
    if info.world_size == 1:
        yield SINGLE_PROCESS
        return
    die_with_parent(os.getppid())
    require_own_store(os.environ)
    timeout = timedelta(seconds=config.run.ranks_timeout_s)
    try:
        start_group(torch.device(config.run.device), timeout)
    except (RuntimeError, ValueError, OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        where = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        raise RankLostError(
            f"rank {info.rank} of {info.world_size} cannot connect to the others at {where} ({reason}): check that all "
            "machines reach that address, and restart all ranks"
        ) from error
    try:
        ranks = TorchProcessGroup(timeout)
        assert_same_config(ranks, config, version)
        yield ranks
    except BaseException:
        leave_group(failed=True)
        raise
    leave_group(failed=False)


def require_own_store(environ: Mapping[str, str]) -> None:
    """Reject a torchrun whose restarted ranks would read the addresses of killed ones.

    By default torchrun keeps one store for all starts, so that restarted ranks find stale addresses in it and wait for
    them until they time out. With `TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1` rank 0 opens a new store each time.

    Raises:
        ConfigError: torchrun may restart ranks, and the store is shared.
    """
    restarts = environ.get("TORCHELASTIC_MAX_RESTARTS", "0")
    if restarts != "0" and environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        raise ConfigError(
            f"torchrun has --max-restarts {restarts}, and restarted ranks would look for killed ones: set "
            f"{OWN_STORE}=1 in the environment of every torchrun, with --standalone or --rdzv-backend c10d"
        )


def start_group(device: torch.device, timeout: timedelta) -> None:
    """Start the process group of all ranks: NCCL on GPUs, gloo on CPUs.

    NCCL calls are asynchronous, and torch's watchdog ends the process without an exception if one fails or times out.
    `TORCH_NCCL_BLOCKING_WAIT` makes each call block the host and raise `DistBackendError` within `timeout`; torch then
    starts no watchdog (`ProcessGroupNCCL::WorkNCCL::wait`). It costs little, since nearly all results are read at once.
    Passing the device makes NCCL connect now instead of at the first call, when ranks would guess each other's GPU.
    """
    if device.type == "cpu":
        dist.init_process_group("gloo", timeout=timeout)
        return
    os.environ.setdefault(BLOCKING_WAIT, "1")
    dist.init_process_group("nccl", timeout=timeout, device_id=device)


def leave_group(*, failed: bool) -> None:
    """Leave the process group together with the other ranks, or alone if this rank has failed.

    Destroying an NCCL group waits for pending calls, and so for ranks that may be gone. Aborting it does not wait.
    """
    if failed and dist.get_backend() == "nccl":
        dist.distributed_c10d._get_default_group().abort()
        return
    dist.destroy_process_group()


def assert_same_config(ranks: ProcessGroup, config: TrainerConfig, version: str) -> None:
    """Check that all ranks have the settings and versions of rank 0.

    Raises:
        ConfigError: They differ; every rank raises it.
    """
    settings = {
        f"{section}.{key}": value
        for section, keys in config.model_dump(mode="json").items()
        for key, value in keys.items()
    }
    # Ranks have different GPUs, but all have one or none.
    settings["run.device"] = torch.device(config.run.device).type
    settings |= {"version": version, "torch": torch.__version__}
    first, *others = (json.loads(each) for each in ranks.all_gather_bytes(json.dumps(settings).encode()))
    for number, other in enumerate(others, start=1):
        differing = [name for name in sorted({*first, *other}) if first.get(name) != other.get(name)]
        if differing:
            named = "; ".join(f"{name} is {other.get(name)!r}, not {first.get(name)!r}" for name in differing)
            raise ConfigError(f"rank {number} differs from rank 0: {named}; start all ranks with the same command")
