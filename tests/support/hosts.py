"""Hosts of a test's own: network namespaces on one bridge, where this user may make them."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pytest


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
    own = os.getpid() % 0xFFFF
    net, bridge = f"10.213.{own % 251}", f"lg{own:04x}"
    names = tuple(f"{bridge}h{place}" for place in range(number))
    with ExitStack() as stack:
        try:
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


def processes(host: str) -> list[int]:
    """Processes that a host runs."""
    return [int(pid) for pid in ip("netns", "pids", host).split()]


def ip(*arguments: str) -> str:
    """Run `ip`; return what it prints."""
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout
