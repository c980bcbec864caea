"""Opponents: from the name in a lease to a policy that acts, cached on disk and in memory by bytes."""

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from arena.durable import write_atomically
from arena.environments import EnvironmentSpec, make_baseline
from arena.errors import ArenaError, printable
from arena.policies import NetworkPolicy, Policy
from arena.policies.checkpoint import decode
from league.errors import HashMismatchError, LeagueError, UnknownCheckpointError
from league.wire import UnplayablePlayer
from trainer.errors import UnavailableOpponentError, UnusableOpponentError

BASELINE_PREFIX = "baseline:"
REASON_LENGTH = 500
"""Most characters of a reason that the league takes."""
SUFFIX = ".safetensors"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Opponent:
    """Whom one environment plays.

    Attributes:
        key: Its checkpoint: a SHA-256 or `baseline:NAME`; for the learner's own live weights `self`.
        name: How the league calls it.
        policy: Acts for it. Environments with the same key share it, each with a memory of its own.
    """

    key: str
    name: str
    policy: Policy


SELF = "self"
"""Key of the learner's live weights."""


def unplayable(player_id: int, error: UnusableOpponentError) -> list[UnplayablePlayer]:
    """What to tell the league of a player that failed so: nothing where it may be had later."""
    if isinstance(error, UnavailableOpponentError):
        return []
    reason = printable(error).replace("\0", " ")
    return [UnplayablePlayer(player_id=player_id, reason=reason[:REASON_LENGTH])]


class DiskCache:
    """Checkpoints in a folder, bounded by bytes; what was used longest ago goes first."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self._folder, self._limit_bytes = folder, limit_bytes
        folder.mkdir(parents=True, exist_ok=True)

    def names(self) -> list[str]:
        """Hashes in the cache, least recently used first."""
        return [file.name.removesuffix(SUFFIX) for file in self._files()]

    def get(self, sha256: str) -> bytes | None:
        """The bytes of a checkpoint; None where they cannot be read, or no longer match their hash and are dropped."""
        file = self._path(sha256)
        try:
            data = file.read_bytes()
        except OSError:
            return None
        with suppress(OSError):  # who was used when is a nicety
            file.touch()
        if hashlib.sha256(data).hexdigest() != sha256:
            self.drop(sha256)
            return None
        return data

    def put(self, sha256: str, data: bytes) -> None:
        """Keep a checkpoint, and drop others until all fit."""
        write_atomically(self._path(sha256), data)
        files = self._files()
        total = sum(file.stat().st_size for file in files)
        while total > self._limit_bytes and len(files) > 1:
            total -= files[0].stat().st_size
            files.pop(0).unlink()

    def drop(self, sha256: str) -> None:
        """Forget a checkpoint, unless the disk does not let it go."""
        with suppress(OSError):
            self._path(sha256).unlink()

    def _path(self, sha256: str) -> Path:
        return self._folder / f"{sha256}{SUFFIX}"

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob(f"*{SUFFIX}"), key=lambda file: (file.stat().st_mtime_ns, file.name))


class OpponentPool:
    """Loads opponents of one environment; the most recently used stay in memory, bounded by bytes.

    Args:
        spec: Environment that they must have been trained for.
        download: Fetches a checkpoint's verified bytes from the league; None while it is away.
        cache: Where downloads are kept.
        memory_limit_bytes: Most bytes of loaded networks.
        device: Where networks go.
        modules: Network modules, which are code, that the user has named and opponents may need.
    """

    def __init__(
        self,
        spec: EnvironmentSpec,
        download: Callable[[str], bytes | None],
        cache: DiskCache,
        *,
        memory_limit_bytes: int,
        device: str,
        modules: Collection[str] = (),
    ) -> None:
        self._spec, self._download, self._cache = spec, download, cache
        self._memory_limit_bytes, self._device, self._modules = memory_limit_bytes, device, modules
        self._loaded: OrderedDict[str, tuple[Policy, int]] = OrderedDict()
        self._told_of_disk = False

    def resolve(self, checkpoint: str, name: str) -> Opponent:
        """Find the policy that a lease names.

        Raises:
            UnusableOpponentError: It does not exist, is corrupt, or plays another environment.
            UnavailableOpponentError: It cannot be fetched now.
        """
        if checkpoint not in self._loaded:
            load = self._baseline if checkpoint.startswith(BASELINE_PREFIX) else self._learned
            self._remember(checkpoint, *load(checkpoint))
        self._loaded.move_to_end(checkpoint)
        return Opponent(checkpoint, name, self._loaded[checkpoint][0])

    def prefetch(self, checkpoints: Iterable[str], enough: Callable[[], bool]) -> None:
        """Load who will be asked for soon, as long as all of them fit into memory and until it is enough.

        Who cannot be loaded is left to `resolve`, which says why.
        """
        wanted: set[str] = set()
        for checkpoint in checkpoints:
            if enough() or not wanted <= self._loaded.keys():
                return
            with suppress(UnusableOpponentError):
                self.resolve(checkpoint, checkpoint)
                wanted.add(checkpoint)

    def at_hand(self) -> list[str]:
        """Checkpoints that can be resolved without the league, in a fixed order."""
        return sorted({*self._loaded, *self._cache.names()})

    @property
    def loaded_bytes(self) -> int:
        """Memory that loaded networks take."""
        return sum(size for _, size in self._loaded.values())

    def _baseline(self, checkpoint: str) -> tuple[Policy, int]:
        try:
            return make_baseline(self._spec.name, checkpoint.removeprefix(BASELINE_PREFIX)), 0
        except ArenaError as error:
            raise UnusableOpponentError(str(error)) from error

    def _learned(self, sha256: str) -> tuple[Policy, int]:
        data = self._cache.get(sha256)
        if data is None:
            data = self._fetch(sha256)
        try:
            policy = decode(data, device=self._device, source=sha256, modules=self._modules)
        except ArenaError as error:
            self._cache.drop(sha256)
            raise UnusableOpponentError(str(error)) from error
        self._check(sha256, policy)
        return policy, len(data)

    def _fetch(self, sha256: str) -> bytes:
        try:
            data = self._download(sha256)
        except (HashMismatchError, UnknownCheckpointError) as error:
            raise UnusableOpponentError(str(error)) from error
        except LeagueError as error:
            raise UnavailableOpponentError(str(error)) from error
        if data is None:
            raise UnavailableOpponentError(f"checkpoint {sha256} is not at hand while the league is away: wait for it")
        self._keep(sha256, data)
        return data

    def _keep(self, sha256: str, data: bytes) -> None:
        """Put a download into the cache; where the disk refuses, it is said once and the match goes on."""
        try:
            self._cache.put(sha256, data)
        except OSError as error:
            if not self._told_of_disk:
                logger.warning("opponent %s is played but not kept (%s): make room on the disk", sha256, error.strerror)
            self._told_of_disk = True

    def _check(self, sha256: str, policy: NetworkPolicy) -> None:
        """Refuse what would fail, or spoil a match, at its first decision."""
        spec, architecture = self._spec, policy.network.architecture
        if policy.signature != spec.signature:
            raise UnusableOpponentError(
                f"{sha256} was trained for {policy.environment} (signature {policy.signature}), but {spec.name} "
                f"has signature {spec.signature}: publish checkpoints of one environment only"
            )
        if (architecture.observation_size, architecture.heads) != (spec.observation_size, spec.heads):
            raise UnusableOpponentError(
                f"{sha256} takes {architecture.observation_size} floats and the heads "
                f"{[head.name for head in architecture.heads]}, which is not what {spec.name} has: publish it anew"
            )

    def _remember(self, checkpoint: str, policy: Policy, size: int) -> None:
        self._loaded[checkpoint] = (policy, size)
        while self.loaded_bytes > self._memory_limit_bytes and len(self._loaded) > 1:
            self._loaded.popitem(last=False)
