"""Several servers of one league behind one address: nginx, balancing as deploy/proxy does."""

import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.server.testbed import Server, Testbed, free_port

_CONFIGURATION = """
worker_processes 1; {user} pid {folder}/pid; error_log {folder}/errors.log warn;
events {{ worker_connections 16384; }}
http {{
    access_log off; client_max_body_size 0; proxy_request_buffering off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxied;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    upstream league {{ zone league 128k; {servers} keepalive 64; keepalive_timeout 10s; }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location / {{
            proxy_pass http://league; proxy_http_version 1.1;
            proxy_set_header Connection ""; proxy_set_header Host $http_host;
        }}
    }}
}}
"""
_START_S = 30.0


@dataclass(frozen=True)
class Front:
    """Servers over one database and one folder of checkpoints.

    Attributes:
        url: Of all of them.
        servers: Each.
        proxy_pid: Of what stands before them; None where there is one server.
    """

    url: str
    servers: Sequence[Server]
    proxy_pid: int | None


@contextmanager
def served(testbed: Testbed, count: int, database_url: str, **settings: object) -> Iterator[Front]:
    """Run so many servers with the same settings; more than one of them behind nginx.

    Raises:
        SystemExit: There is no nginx, or it does not start.
    """
    with ExitStack() as stack:
        shared = {**settings, "store_url": str(testbed.folder / "checkpoints")}
        servers = [stack.enter_context(testbed.league(database_url, **shared)) for _ in range(count)]
        if count == 1:
            yield Front(servers[0].url, servers, None)
            return
        url, pid = stack.enter_context(_nginx(testbed.folder / "proxy", [server.url for server in servers]))
        yield Front(url, servers, pid)


@contextmanager
def _nginx(folder: Path, urls: Sequence[str]) -> Iterator[tuple[str, int]]:
    program, port = shutil.which("nginx"), free_port()
    if program is None:
        raise SystemExit("--servers above 1 needs a proxy: install nginx, as `apt-get install nginx` does")
    folder.mkdir(exist_ok=True)
    servers = " ".join(f"server {urlsplit(url).netloc};" for url in urls)
    user = "user root;" if folder.owner() == "root" else ""
    file = folder / "nginx.conf"
    file.write_text(_CONFIGURATION.format(user=user, folder=folder, servers=servers, port=port))
    log = folder / "errors.log"
    process = subprocess.Popen([program, "-e", str(log), "-c", str(file), "-g", "daemon off;"])
    try:
        deadline = time.monotonic() + _START_S
        while not (folder / "pid").exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"nginx did not start: {log.read_text()[-1000:]}")
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}", process.pid
    finally:
        process.terminate()
        process.wait()
