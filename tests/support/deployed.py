"""Servers of a composition and the proxy before them, as processes of this machine."""

import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import composition
from composition import ROOT, Native

PROXY = ROOT / "deploy" / "proxy"
LIMIT_S = 240.0


@dataclass(frozen=True)
class Listener:
    """A socket that listens on loopback before whoever answers there runs: nobody else can take its port."""

    socket: socket.socket

    @classmethod
    @contextmanager
    def take(cls) -> Iterator[Self]:
        """Listen until the block ends."""
        with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
            yield cls(listener)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.socket.getsockname()[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"


@dataclass(frozen=True)
class Deployment:
    """What services are run with.

    Attributes:
        native: Their paths and addresses on this machine.
        store: Address of the object store, without a scheme.
        public: Where the proxy is to listen.
        health: Where it is to answer its health check.
    """

    native: Native
    store: str
    public: Listener
    health: Listener

    def run(self, name: str, game: str = "", **variables: str) -> "subprocess.CompletedProcess[str]":
        """Run a service to its end, of a league that plays a game."""
        service = composition.services(GAME=game)[name]
        environment = self.native.environment(service) | variables
        command = self.native.command(service)
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT_S)


@dataclass(frozen=True)
class Servers:
    """Running servers of one league: their processes, addresses and logs."""

    processes: Sequence[subprocess.Popen[bytes]]
    urls: Sequence[str]
    logs: Sequence[Path]

    @classmethod
    @contextmanager
    def started(
        cls, command: Sequence[str], environment: Mapping[str, str], count: int, folder: Path
    ) -> Iterator[Self]:
        """Start servers, wait until all listen, and end them with the block; some may be ended before."""
        logs = [folder / f"league-{number}.log" for number in range(count)]
        processes = []
        try:
            for log in logs:
                with log.open("wb") as stream:
                    processes.append(
                        subprocess.Popen(command, env=environment, stdout=stream, stderr=stream, cwd=folder)
                    )
            yield cls(processes, [_address(*each) for each in zip(processes, logs, strict=True)], logs)
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + LIMIT_S
    while process.poll() is None and time.monotonic() < until:
        found = re.search(r"listening on (\S+);", log.read_text())
        if found:
            return found[1]
        time.sleep(0.05)
    raise AssertionError(log.read_text())


@contextmanager
def proxied(
    nginx: str,
    folder: Path,
    template: str,
    servers: Sequence[str],
    store: str,
    public: Listener,
    health: Listener,
    **places: str,
) -> Iterator[Path]:
    """Run the proxy by its own files, with this machine's addresses, until the block ends; yield its log.

    It takes over sockets that listen already, as a new version of it does from an old one.

    Args:
        nginx: The program.
        folder: For its files.
        template: Which of its templates.
        servers: Addresses of the league's servers, without a scheme.
        store: That of the object store.
        public: Where it is to listen.
        health: Where its health check is.
        places: What stands for other paths and addresses in its files.
    """
    configure(folder, template, servers, store, public.address, health.address, **places)
    sockets = (public.socket, health.socket)
    inherited = {"NGINX": "".join(f"{each.fileno()};" for each in sockets), "PATH": os.environ["PATH"]}
    command = [nginx, "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf"), "-g", "daemon off;"]
    for each in sockets:
        os.set_inheritable(each.fileno(), True)
    with (folder / "nginx.log").open("wb") as log, ExitStack() as stack:
        process = subprocess.Popen(
            command, env=inherited, stdout=log, stderr=log, pass_fds=[each.fileno() for each in sockets]
        )
        stack.callback(process.wait)
        stack.callback(process.terminate)
        yield folder / "nginx.log"
        assert process.poll() is None, (folder / "nginx.log").read_text()


def configure(
    folder: Path, template: str, servers: Sequence[str], store: str, public: str, health: str, **places: str
) -> None:
    """Write the proxy's files with other places into a folder; every place must be there to be changed."""
    upstream = " ".join(f"server {server};" for server in servers)
    changed = {
        "nginx.conf": {
            "/tmp/": f"{folder}/",
            "server league:8000 resolve;": upstream,
            "server objects:8333 resolve;": f"server {store};",
            "listen 127.0.0.1:8081;": f"listen {health};",
            "/dev/stderr": str(folder / "error.log"),
            "/dev/stdout": str(folder / "access.log"),
            "worker_processes auto;": "worker_processes 1;" + (" user root;" if os.geteuid() == 0 else ""),
            "worker_connections 16384;": "worker_connections 256;",
        },
        "locations.conf": {"/dev/stderr": str(folder / "error.log")},
        template: {"/etc/nginx/league/": f"{folder}/", **places, "${PUBLIC_PORT}": public},
    }
    for name, replacements in changed.items():
        text = (PROXY / name).read_text()
        for said, stands_for in replacements.items():
            assert said in text, f"{name} does not say {said!r}"
            text = text.replace(said, stands_for)
        (folder / ("league.conf" if name == template else name)).write_text(text)
