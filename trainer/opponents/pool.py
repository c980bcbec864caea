"""Opponent pool: loads the policy that a lease names from memory, disk cache or league."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass

from arena.environments import EnvironmentSpec, make_baseline
from arena.errors import ArenaError, MissingPackageError, ModuleNotAllowedError, escape_unprintable
from arena.onnx.model import START_BYTES, is_onnx
from arena.policies import Policy
from arena.policies.checkpoint import decode_for
from arena.policies.onnx.policy import decode_model
from league.errors import HashMismatchError, LeagueError, UnknownCheckpointError
from league.wire import UnplayablePlayer
from trainer.errors import UnavailableOpponentError, UnsupportedOpponentError, UnusableOpponentError
from trainer.opponents.checkpoint_cache import CheckpointCache

SELF = "self"
"""Key of the learner's live weights."""
BASELINE_PREFIX = "baseline:"
MAX_REASON_LENGTH = 500
"""Characters of an `UnplayablePlayer.reason` that the league accepts."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Opponent:
    """A policy that plays against the learner.

    Attributes:
        key: SHA-256 of its checkpoint, `baseline:NAME`, or `SELF` for the learner's live weights.
        name: The player's name in the league.
        policy: Chooses its actions. Environments with the same key share the policy, each with its own recurrent state.
    """

    key: str
    name: str
    policy: Policy


def unplayable_report(player_id: int, error: UnusableOpponentError) -> list[UnplayablePlayer]:
    """Report a player that failed to load to the league; empty if the failure is temporary."""
    if isinstance(error, UnavailableOpponentError):
        return []
    # The league's database rejects NUL, which PostgreSQL cannot store.
    reason = escape_unprintable(error).replace("\0", " ")
    local = isinstance(error, UnsupportedOpponentError)
    return [UnplayablePlayer(player_id=player_id, reason=reason[:MAX_REASON_LENGTH], local=local)]


class OpponentPool:
    """Loaded opponents of one environment; least recently used networks are evicted by bytes.

    Args:
        spec: Environment that the opponents must have been trained for.
        download: Fetches a checkpoint's verified bytes from the league; None if the league is unreachable.
        cache: Disk cache of downloads.
        memory_limit_bytes: Total size of loaded networks.
        device: Device of the networks.
        modules: Names of user-defined network modules that checkpoints may refer to. They are code, so only
            modules that the user has listed are imported.
    """

    def __init__(
        self,
        spec: EnvironmentSpec,
        download: Callable[[str], bytes | None],
        cache: CheckpointCache,
        *,
        memory_limit_bytes: int,
        device: str,
        modules: Collection[str] = (),
    ) -> None:
        self._spec, self._download, self._cache = spec, download, cache
        self._memory_limit_bytes, self._device, self._modules = memory_limit_bytes, device, modules
        self._loaded: OrderedDict[str, tuple[Policy, int]] = OrderedDict()
        self._disk_warning_logged = False

    def resolve(self, checkpoint: str, name: str) -> Opponent:
        """Return the opponent with this checkpoint, loading it if necessary.

        Raises:
            UnusableOpponentError: The checkpoint does not exist, is corrupt, or belongs to another environment.
            UnsupportedOpponentError: It needs a package that is not installed, or a module that is not allowed.
            UnavailableOpponentError: It cannot be fetched now.
        """
        if checkpoint not in self._loaded:
            load = self._load_baseline if checkpoint.startswith(BASELINE_PREFIX) else self._load_checkpoint
            self._store(checkpoint, *load(checkpoint))
        self._loaded.move_to_end(checkpoint)
        return Opponent(checkpoint, name, self._loaded[checkpoint][0])

    def prefetch(self, checkpoints: Iterable[str], should_stop: Callable[[], bool]) -> None:
        """Load upcoming opponents until `should_stop`, or until the next one would evict one of them.

        A checkpoint that fails to load is skipped; `resolve` raises its error later.
        """
        prefetched: set[str] = set()
        for checkpoint in checkpoints:
            if should_stop() or not prefetched <= self._loaded.keys():
                return
            with suppress(UnusableOpponentError):
                self.resolve(checkpoint, checkpoint)
                prefetched |= {checkpoint} & self._loaded.keys()

    def available_offline(self) -> list[str]:
        """Checkpoints in memory or in the disk cache, sorted."""
        return sorted({*self._loaded, *self._cache.hashes()})

    @property
    def loaded_bytes(self) -> int:
        """Memory of the loaded networks."""
        return sum(size for _, size in self._loaded.values())

    def _load_baseline(self, checkpoint: str) -> tuple[Policy, int]:
        try:
            return make_baseline(self._spec.name, checkpoint.removeprefix(BASELINE_PREFIX)), 0
        except ArenaError as error:
            raise UnusableOpponentError(str(error)) from error

    def _load_checkpoint(self, sha256: str) -> tuple[Policy, int]:
        data = self._cache.get(sha256)
        if data is None:
            data = self._fetch(sha256)
        try:
            policy = self._decode(sha256, data)
        except (MissingPackageError, ModuleNotAllowedError) as error:
            raise UnsupportedOpponentError(str(error)) from error
        except ArenaError as error:
            # The file may be damaged, and the next attempt should download it again.
            self._cache.drop(sha256)
            raise UnusableOpponentError(str(error)) from error
        return policy, len(data)

    def _decode(self, sha256: str, data: bytes) -> Policy:
        if is_onnx(data[:START_BYTES]):
            return decode_model(self._spec, data, source=sha256)
        return decode_for(self._spec, data, device=self._device, source=sha256, modules=self._modules)

    def _fetch(self, sha256: str) -> bytes:
        try:
            data = self._download(sha256)
        except (HashMismatchError, UnknownCheckpointError) as error:
            raise UnusableOpponentError(str(error)) from error
        except LeagueError as error:
            raise UnavailableOpponentError(str(error)) from error
        if data is None:
            raise UnavailableOpponentError(
                f"checkpoint {sha256} is not cached and the league is unreachable: retry when the league is reachable"
            )
        self._write_to_cache(sha256, data)
        return data

    def _write_to_cache(self, sha256: str, data: bytes) -> None:
        """Cache a download; if the disk refuses, log one warning and play on without the cache."""
        try:
            self._cache.put(sha256, data)
        except OSError as error:
            if not self._disk_warning_logged:
                logger.warning("opponent %s is not cached on disk (%s): free disk space", sha256, error.strerror)
            self._disk_warning_logged = True

    def _store(self, checkpoint: str, policy: Policy, size: int) -> None:
        self._loaded[checkpoint] = (policy, size)
        # The newest stays even if it is larger than the limit, because it is about to play.
        while self.loaded_bytes > self._memory_limit_bytes and len(self._loaded) > 1:
            self._loaded.popitem(last=False)
