"""A port for a server that is started again at the same one."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved() -> Iterator[int]:
    """Give a port of loopback that, until the block ends, only who asks for it by number gets.

    It is bound, and nobody listens there: whoever binds it too by number, as servers do that leave an old one's
    connections alone (SO_REUSEADDR), may listen; to those who ask for any port it is taken.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
