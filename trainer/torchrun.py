"""How a process that torchrun has started meets the others, and which part of a run is its own."""

import json
import os
import secrets
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from arena.seeding import derive
from league.tether import tether
from trainer.distributed import ALONE, LOOK_S, Group, Ranks, introduce
from trainer.errors import ConfigError, RankLostError
from trainer.settings import TrainerConfig

WORD_BYTES = 8
"""Random bytes of what a rank knocks with, and of the name that rank 0 makes up."""


@dataclass(frozen=True)
class Place:
    """Where a process stands among those of its run.

    Attributes:
        number: Its rank, from 0.
        count: How many ranks there are.
        local_number: Its number on this machine, from 0: that of its GPU.
        local_count: How many there are on this machine.
    """

    number: int
    count: int
    local_number: int
    local_count: int


BY_ITSELF = Place(0, 1, 0, 1)


def place_of(environ: Mapping[str, str]) -> Place:
    """The place that torchrun gave; that of a process by itself where it started none or one."""
    if "TORCHELASTIC_RUN_ID" not in environ:
        return BY_ITSELF
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    place = Place(*(int(environ[name]) for name in names))
    return place if place.count > 1 else BY_ITSELF


def share_of(config: TrainerConfig, place: Place) -> TrainerConfig:
    """A rank's part of a run: its environments, and its GPU where settings ask for any.

    Raises:
        ConfigError: Environments cannot be dealt evenly, or the settings ask for one GPU for all.
    """
    if place.count == 1:
        return config
    run, played = config.run, config.environment
    whole, rest = divmod(played.num_envs, place.count)
    if rest:
        near = place.count * max(whole, 1)
        raise ConfigError(
            f"environment.num_envs is {played.num_envs}, which {place.count} ranks cannot share evenly: "
            f"set it to {near} or {near + place.count}, or start another number of them (--nproc-per-node and --nnodes "
            "of torchrun, --gpus-per-trainer of a fleet)"
        )
    device = run.device
    if device.startswith("cuda:") and place.local_count > 1:
        raise ConfigError(
            f"run.device is {device}, but {place.local_count} ranks of this machine need one GPU each: "
            "set it to cuda, and every rank takes its own"
        )
    if device == "cuda":
        device = f"cuda:{place.local_number}"
    return config.model_copy(
        update={
            "run": run.model_copy(update={"device": device}),
            "environment": played.model_copy(update={"num_envs": whole}),
        }
    )


def seed_of(seed: int, number: int) -> int:
    """Seed of what a rank plays: that of the run on rank 0, one of its own on every other."""
    return derive(seed, "rank", number) if number else seed


@contextmanager
def joined(place: Place, config: TrainerConfig, version: str) -> Iterator[Ranks]:
    """Meet the other ranks, make sure that they run the same, and learn with them until the block ends.

    Ranks get SIGTERM when their torchrun ends, however it does: none goes on by itself and keeps the run folder.

    Args:
        place: This process's.
        config: Its share of the run.
        version: Of this program.

    Raises:
        RankLostError: They did not come in time.
        ConfigError: Ranks have other settings or versions than rank 0.
    """
    if place.count == 1:
        yield ALONE
        return
    tether(os.getppid())
    on_gpu = config.run.device.startswith("cuda")
    if on_gpu:
        torch.cuda.set_device(config.run.device)
    timeout = timedelta(seconds=config.run.ranks_timeout_s)
    try:
        kept, number, count = next(rendezvous("env://", place.number, place.count, timeout=timeout))
        store = meet(kept, number, count, config.run.ranks_timeout_s)
        introduce(store, number, f"{socket.gethostname()}, process {os.getpid()}")
        dist.init_process_group(
            "nccl" if on_gpu else "gloo", store=store, rank=number, world_size=count, timeout=timeout
        )
    except (RuntimeError, ValueError, OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        where = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        raise RankLostError(
            f"rank {place.number} of {place.count} cannot meet the others at {where} ({reason}): look whether all "
            "machines reach that address, and start all ranks again"
        ) from error
    try:
        ranks = Group(store)
        check_alike(ranks, config, version)
        yield ranks
    finally:
        dist.destroy_process_group()


def meet(store: Store, number: int, count: int, timeout_s: float) -> Store:
    """Agree on a part of the store that ranks of this very start have to themselves.

    torchrun keeps its store from start to start, and with it the addresses of ranks that are gone; how often it has
    started is another number on every machine. So each rank knocks with a word that nobody has said before. Rank 0
    answers every word with a name that it has made up, also where somebody who is gone had knocked before, until each
    rank has come to that name.

    Args:
        store: What all ranks reach.
        number: This rank's.
        count: Of all ranks.
        timeout_s: How long they wait for each other.

    Raises:
        OSError: Not all ranks came in time.
        RuntimeError: The store is gone, or rank 0 did not answer in time.
    """
    word = secrets.token_hex(WORD_BYTES)
    if number:
        store.set(_knock(number), word)
        answer = _answer(word)
        store.wait([answer], timedelta(seconds=timeout_s))
        name = store.get(answer).decode()
        store.set(_arrival(name, number), "")
        return PrefixStore(name, store)
    until = time.monotonic() + timeout_s
    while missing := [each for each in range(1, count) if not store.check([_arrival(word, each)])]:
        if time.monotonic() >= until:
            named = " and ".join(f"rank {each}" for each in missing)
            raise TimeoutError(f"{named} did not come within {timeout_s:g} s")
        for each in missing:
            if store.check([_knock(each)]):
                store.set(_answer(store.get(_knock(each)).decode()), word)
        time.sleep(LOOK_S)
    return PrefixStore(word, store)


def _knock(number: int) -> str:
    return f"knock/{number}"


def _answer(word: str) -> str:
    return f"answer/{word}"


def _arrival(name: str, number: int) -> str:
    return f"{name}/arrival/{number}"


def check_alike(ranks: Ranks, config: TrainerConfig, version: str) -> None:
    """Refuse ranks that would learn something else than rank 0.

    Raises:
        ConfigError: Versions or settings differ; every rank raises it.
    """
    said = {
        f"{section}.{key}": value
        for section, keys in config.model_dump(mode="json").items()
        for key, value in keys.items()
    }
    said["run.device"] = torch.device(config.run.device).type
    said |= {"version": version, "torch": torch.__version__}
    first, *others = (json.loads(each) for each in ranks.tell(json.dumps(said).encode()))
    for number, other in enumerate(others, start=1):
        unlike = [name for name in sorted({*first, *other}) if first.get(name) != other.get(name)]
        if unlike:
            named = "; ".join(f"{name} is {other.get(name)!r}, not {first.get(name)!r}" for name in unlike)
            raise ConfigError(f"rank {number} differs from rank 0: {named}; start all ranks by the same command")
