"""Hosts of a test's own: network namespaces on one bridge, where this user may make them."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

NAME = re.compile(r"lg([0-9a-f]+)(?:h\d)?")
"""Names of bridges and of hosts."""


@dataclass(frozen=True)
class Hosts:
    """Some hosts, and this machine, at one switch.

    Attributes:
        here: Address of this machine there.
        names: Namespaces, one a host.
    """

    here: str
    names: tuple[str, ...]

    def unplug(self, host: str) -> None:
        """Take a host's cable out."""
        ip("link", "set", f"{host}p", "down")

    def plug_in(self, host: str) -> None:
        """Put it back."""
        ip("link", "set", f"{host}p", "up")


@contextmanager
def connected(number: int) -> Iterator[Hosts]:
    """Make hosts; tests are skipped where that is not permitted."""
    if shutil.which("ip") is None:
        pytest.skip("there is no `ip` here")
    bridge = f"lg{os.getpid():x}"
    names = tuple(f"{bridge}h{place}" for place in range(number))
    with ExitStack() as stack:
        try:
            sweep()
            net = free_network()
            ip("link", "add", bridge, "type", "bridge")
            stack.callback(ip, "link", "del", bridge)
            ip("addr", "add", f"{net}.1/24", "dev", bridge)
            ip("link", "set", bridge, "up")
            for place, name in enumerate(names):
                ip("netns", "add", name)
                stack.callback(ip, "netns", "del", name)
                ip("link", "add", f"{name}p", "type", "veth", "peer", "name", "eth0", "netns", name)
                ip("link", "set", f"{name}p", "master", bridge, "up")
                ip("-n", name, "addr", "add", f"{net}.{place + 2}/24", "dev", "eth0")
                ip("-n", name, "link", "set", "eth0", "up")
                ip("-n", name, "link", "set", "lo", "up")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no hosts of its own: {error.stderr.strip()}")
        yield Hosts(f"{net}.1", names)


def sweep() -> None:
    """Remove what tests have left that were killed: names have the number of the process that made them."""
    namespaces = [line.split()[0] for line in ip("netns", "list").splitlines()]
    links = [line.split(": ")[1].partition("@")[0] for line in ip("-oneline", "link", "show").splitlines()]
    for kind, names in (("netns", namespaces), ("link", links)):
        for name in names:
            made = NAME.fullmatch(name)
            if made and (int(made[1], 16) == os.getpid() or not Path(f"/proc/{int(made[1], 16)}").exists()):
                ip(kind, "del", name)


def free_network() -> str:
    """The first three numbers of addresses that nobody here has."""
    used = set(re.findall(r"inet 10\.213\.(\d+)\.", ip("-oneline", "-4", "addr", "show")))
    own = os.getpid()  # tests beside this one begin elsewhere
    return next(f"10.213.{(own + each) % 256}" for each in range(256) if str((own + each) % 256) not in used)


def processes(host: str) -> list[int]:
    """Processes that a host runs."""
    return [int(pid) for pid in ip("netns", "pids", host).split()]


def ip(*arguments: str) -> str:
    """Run `ip`; return what it prints."""
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout
