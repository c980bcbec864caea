"""A line between this machine and a host that is slow, uneven and loses packets, as `tc netem` makes one.

Not every kernel has netem. So packets go through two TUN devices and a thread of the test's own, which holds each of
them back or drops it: what TCP makes of that is the kernel's.
"""

import fcntl
import heapq
import os
import random
import select
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import hosts
import pytest

_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000  # linux/if_tun.h
_PACKET_BYTES = 2**16


@dataclass
class Line:
    """What became of packets, both ways together.

    Attributes:
        here: Address of this machine on it.
        passed: Packets that came through.
        lost: Packets that did not.
    """

    here: str
    passed: int = 0
    lost: int = 0
    _waiting: list[tuple[float, int, int, bytes]] = field(default_factory=list)

    def carry(self, ends: tuple[int, int], stop: int, delay_s: float, jitter_s: float, loss: float) -> None:
        """Carry packets between two devices until there is something to read from `stop`."""
        chance = random.Random(0)
        across = dict(zip(ends, reversed(ends), strict=True))
        while True:
            due_s = self._waiting[0][0] - time.monotonic() if self._waiting else None
            ready, _, _ = select.select([*ends, stop], [], [], None if due_s is None else max(0.0, due_s))
            if stop in ready:
                return
            for end in ready:
                packet = os.read(end, _PACKET_BYTES)
                if chance.random() < loss:
                    self.lost += 1
                    continue
                at_s = time.monotonic() + delay_s + chance.uniform(-jitter_s, jitter_s)
                heapq.heappush(self._waiting, (at_s, self.passed + len(self._waiting), across[end], packet))
            while self._waiting and self._waiting[0][0] <= time.monotonic():
                *_, end, packet = heapq.heappop(self._waiting)
                os.write(end, packet)
                self.passed += 1


@contextmanager
def line(host: str, *, delay_s: float, jitter_s: float, loss: float) -> Iterator[Line]:
    """Lay a line to a host.

    Args:
        host: Namespace, as `hosts.connected` makes it.
        delay_s: Of a packet, each way.
        jitter_s: By how much it is less or more, at most; later packets overtake earlier ones.
        loss: Share of packets that are dropped, in [0, 1].
    """
    own = os.getpid() % 251
    here, there = f"10.214.{own}.1", f"10.214.{own}.2"
    with ExitStack() as stack:
        try:
            ends = _device(f"{host}a"), _device(f"{host}b")
        except OSError as error:
            pytest.skip(f"no TUN devices here: {error}")
        for end in ends:
            stack.callback(os.close, end)
        hosts.ip("link", "set", f"{host}b", "netns", host)
        for within, name, address, peer in (((), f"{host}a", here, there), (("-n", host), f"{host}b", there, here)):
            hosts.ip(*within, "addr", "add", address, "peer", peer, "dev", name)
            hosts.ip(*within, "link", "set", name, "up")
        made = Line(here)
        stop, tell = os.pipe()
        stack.callback(os.close, stop)
        thread = threading.Thread(target=made.carry, args=(ends, stop, delay_s, jitter_s, loss))
        thread.start()
        stack.callback(thread.join)
        stack.callback(os.close, tell)
        yield made


def _device(name: str) -> int:
    """A TUN device of this name; it is gone when the file is closed."""
    file = os.open("/dev/net/tun", os.O_RDWR)
    try:
        fcntl.ioctl(file, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    except OSError:
        os.close(file)
        raise
    return file
