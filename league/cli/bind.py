"""The address that a server takes: free, and ours before anything else starts."""

import errno
import socket
from typing import ClassVar

from league.errors import ConfigurationError, LeagueError


class PortTakenError(LeagueError):
    """Something else listens where the server was to listen."""

    type: ClassVar[str] = "port-taken"
    title: ClassVar[str] = "port taken"


_LOOPBACK_OF = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound
"""Where this machine reaches a server that listens on all of its interfaces."""


def take(host: str, port: int) -> socket.socket:
    """Bind the address; nobody can connect before the socket listens.

    Args:
        host: Name or address of an interface of this machine.
        port: TCP port; 0 takes any free one.

    Raises:
        PortTakenError: Something else listens there.
        ConfigurationError: The host is none of this machine's, or the port needs privileges.
    """
    listener: socket.socket | None = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise _named(error, host, port) from error
    return listener


def at_once(listener: socket.socket, connections: int) -> list[socket.socket]:
    """Return the socket and copies of it, for a server that takes in one connection of each in a turn of its loop.

    libuv, on which uvloop builds, does so since 1.45. While each turn waits for Python's lock that is a few hundred
    connections a second; others queue in the kernel, where no lane lets heartbeats pass.

    Args:
        listener: Bound; the copies listen where it does, and are to be closed as well.
        connections: Most that are taken in at once, >= 1.
    """
    return [listener, *(listener.dup() for _ in range(connections - 1))]


def url_of(listener: socket.socket) -> str:
    """Return the address under which this machine reaches a bound socket."""
    host, port = listener.getsockname()[:2]
    reached = _LOOPBACK_OF.get(host, host)
    return f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"


def sentence_of(listener: socket.socket) -> str:
    """Return where a bound socket listens, as `league serve` prints it."""
    host, port = listener.getsockname()[:2]
    others = f"; other machines reach port {port} on all interfaces" if host in _LOOPBACK_OF else ""
    return f"listening on {url_of(listener)}{others}"


def _named(error: OSError, host: str, port: int) -> LeagueError:
    if error.errno == errno.EADDRINUSE:
        way_out = "stop it, or choose another port with --port or LEAGUE_PORT"
        return PortTakenError(f"{host}:{port}", "another process listens there", way_out)
    way_out = "choose another address with --host and --port, or LEAGUE_HOST and LEAGUE_PORT"
    return ConfigurationError(f"address {host}:{port}", f"it cannot be listened on ({error.strerror})", way_out)
