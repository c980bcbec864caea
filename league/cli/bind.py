"""Bind the server's address before anything else starts, so that a taken port fails early."""

import errno
import socket
from typing import ClassVar

from league.errors import ConfigurationError, LeagueError


class PortTakenError(LeagueError):
    """Another process listens on the server's address."""

    type: ClassVar[str] = "port-taken"
    title: ClassVar[str] = "port taken"


_LOOPBACK_OF = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound
"""Loopback address to reach a server that listens on all interfaces."""


def take(host: str, port: int) -> socket.socket:
    """Bind the address; clients cannot connect before the socket listens.

    Args:
        host: Name or address of an interface of this machine.
        port: TCP port; 0 takes any free one.

    Raises:
        PortTakenError: Another process listens there.
        ConfigurationError: The host is not an address of this machine, or the port needs privileges.
    """
    listener: socket.socket | None = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        # A restart must not wait for the last server's connections, which stay in TIME_WAIT for a minute.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise _named(error, host, port) from error
    return listener


def at_once(listener: socket.socket, connections: int) -> list[socket.socket]:
    """Return the socket and duplicates of it, so that the event loop accepts several connections per iteration.

    libuv, on which uvloop builds, accepts one connection per socket and iteration since 1.45. If every iteration waits
    for the GIL, that is a few hundred connections a second. The others queue in the kernel, where heartbeats cannot be
    served first.

    Args:
        listener: Bound socket; the caller also closes the duplicates.
        connections: Connections to accept per iteration, >= 1.
    """
    return [listener, *(listener.dup() for _ in range(connections - 1))]


def url_of(listener: socket.socket) -> str:
    """Return the URL at which this machine reaches a bound socket."""
    host, port = listener.getsockname()[:2]
    reached = _LOOPBACK_OF.get(host, host)
    return f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"


def sentence_of(listener: socket.socket) -> str:
    """Return the line in which `league serve` prints its address."""
    host, port = listener.getsockname()[:2]
    others = f"; other machines: port {port} on all interfaces" if host in _LOOPBACK_OF else ""
    return f"listening on {url_of(listener)}{others}"


def _named(error: OSError, host: str, port: int) -> LeagueError:
    if error.errno == errno.EADDRINUSE:
        remedy = "stop it, or choose another port with --port or LEAGUE_PORT"
        return PortTakenError(f"{host}:{port}", "another process listens there", remedy)
    remedy = "choose another address with --host and --port, or LEAGUE_HOST and LEAGUE_PORT"
    return ConfigurationError(f"address {host}:{port}", f"the server cannot listen on it ({error.strerror})", remedy)
