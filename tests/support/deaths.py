"""A run that dies at a chosen point, as by kill -9: what it had written stays, and it does nothing more."""

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

import league.client.result_spool
import trainer.checkpointing.format
import trainer.runtime.session
from arena.durable_log import AppendFile, LineFile
from league.client.result_spool import ResultSpool

FILE_BYTES = 4000
"""Files of the spool are followed by the next beyond this, so that some go within a short run."""

OTHERS = "opponents", "tensorboard"
"""Folders that other threads may be writing in; a run goes on without."""

CALLS = {"/results": "results", "/leases": "leases"}
KEPT = {"delivered.json": "position", "state.safetensors": "state"}

POINTS = [
    "results: to be written",
    "results: half written",
    "results: written",
    "results: to be sent",
    "results: taken, no answer yet",
    "leases: to be sent",
    "leases: taken, no answer yet",
    "position: to be written",
    "position: written aside",
    "position: written",
    "state: to be written",
    "state: written aside",
    "state: written",
    "file: begun",
    "file: to go",
    "file: gone",
]


class Death(Exception):  # noqa: N818  none that anything waits for
    """The run is dead."""


class Deaths:
    """Lets a run die at a point.

    Args:
        run: Its folder.

    Attributes:
        written: How often each whole line was written to its spool.
        opened: Files, to be closed in the end: the dead close none.
    """

    def __init__(self, run: Path) -> None:
        self._run, self._left = run, run.with_name("left")
        self._point, self._passes = "", 0
        self.dead = False
        self.written: Counter[bytes] = Counter()
        self.opened: list[LineFile] = []

    @contextmanager
    def at(self, point: str, passes: int) -> Iterator[None]:
        """Die where a point is passed so many times; afterwards the folder is as the dead run left it."""
        self._point, self._passes = point, passes
        yield
        assert self.dead, f"the run did not come to {point!r}"
        shutil.rmtree(self._run)
        self._left.rename(self._run)
        self._point, self.dead = "", False

    def reach(self, point: str) -> None:
        """Die here if it is time."""
        assert point in POINTS
        if self.dead or point != self._point:
            return
        self._passes -= 1
        if not self._passes:
            shutil.copytree(self._run, self._left, ignore=shutil.ignore_patterns(*OTHERS))
            self.dead = True
            raise Death(point)

    def wrote(self, data: bytes) -> None:
        """Take down the lines of the spool, the last of them perhaps in part."""
        if not self.dead:
            self.written.update(data.rpartition(b"\n")[0].splitlines())


def mortal(run: Path, transport: Any, patch: pytest.MonkeyPatch) -> Deaths:
    """Have a run in a folder, and calls by a transport, come by every point of `POINTS`."""
    deaths = Deaths(run)
    _write_by_halves(deaths, patch)
    _write_files(deaths, patch)
    _rotate(deaths, patch)
    _call(deaths, transport, patch)
    return deaths


def _write_by_halves(deaths: Deaths, patch: pytest.MonkeyPatch) -> None:
    write_all = AppendFile._write_all

    def write(file: AppendFile, data: memoryview) -> None:
        if not Path(file._file.name).name.startswith("results-"):
            write_all(file, data)
            return
        half = len(data) // 2
        deaths.reach("results: to be written")
        write_all(file, data[:half])
        deaths.wrote(bytes(data[:half]))  # whole lines among it count
        deaths.reach("results: half written")
        write_all(file, data[half:])
        deaths.wrote(bytes(data)[bytes(data[:half]).rfind(b"\n") + 1 :])
        deaths.reach("results: written")

    patch.setattr(AppendFile, "_write_all", write)


def _write_files(deaths: Deaths, patch: pytest.MonkeyPatch) -> None:
    replace = Path.replace

    def put_in_place(aside: Path, path: Path) -> Path:
        if path.name in KEPT:
            deaths.reach(f"{KEPT[path.name]}: written aside")
        return replace(aside, path)

    patch.setattr(Path, "replace", put_in_place)
    for module in (league.client.result_spool, trainer.checkpointing.format):
        patch.setattr(module, "write_atomically", partial(_write_file, deaths, module.write_atomically))


def _write_file(deaths: Deaths, write: Any, path: Path, data: bytes, **options: bool) -> None:
    deaths.reach(f"{KEPT[path.name]}: to be written")
    write(path, data, **options)
    deaths.reach(f"{KEPT[path.name]}: written")


def _rotate(deaths: Deaths, patch: pytest.MonkeyPatch) -> None:
    unlink = Path.unlink

    def remove(path: Path, missing_ok: bool = False) -> None:
        counts = path.name.startswith("results-")
        if counts:
            deaths.reach("file: to go")
        unlink(path, missing_ok)
        if counts:
            deaths.reach("file: gone")

    def begin(path: Path) -> LineFile:
        known, file = path.exists(), LineFile(path)
        deaths.opened.append(file)
        if not known:
            deaths.reach("file: begun")
        return file

    patch.setattr(Path, "unlink", remove)
    patch.setattr(league.client.result_spool, "LineFile", begin)
    patch.setattr(trainer.runtime.session, "ResultSpool", partial(ResultSpool, file_bytes=FILE_BYTES))


def _call(deaths: Deaths, transport: Any, patch: pytest.MonkeyPatch) -> None:
    request = transport.request

    def call(method: str, url: Any, **options: Any) -> Any:
        if deaths.dead:
            raise httpx2.ConnectError("the dead do not call")
        what = next((what for end, what in CALLS.items() if method == "POST" and str(url).endswith(end)), None)
        if what is None:
            return request(method, url, **options)
        deaths.reach(f"{what}: to be sent")
        answer = request(method, url, **options)
        deaths.reach(f"{what}: taken, no answer yet")
        return answer

    patch.setattr(transport, "request", call)
