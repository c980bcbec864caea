"""Wait for a league's first rating period with `league.client` alone; arguments: its process id, its address file."""

import importlib.util
import os
import sys
import time
from pathlib import Path

from league.client import LeagueClient
from league.errors import LeagueError

PATIENCE_S = 300.0
SERVER_SIDE = ("alembic", "fastapi", "numpy", "scipy", "sqlalchemy", "torch", "typer")


def main() -> None:
    """Print the standings after the first period."""
    if installed := [name for name in SERVER_SIDE if importlib.util.find_spec(name)]:
        sys.exit(f"the client's environment has {', '.join(installed)}; install the wheel without extras")
    pid, address = int(sys.argv[1]), Path(sys.argv[2])
    deadline = time.monotonic() + PATIENCE_S
    while not closed(address):
        os.kill(pid, 0)  # raises if the league has ended
        if time.monotonic() > deadline:
            sys.exit(f"no rating period closed within {PATIENCE_S:g} s")
        time.sleep(1.0)
    with LeagueClient(address.read_text().strip()) as client:
        for row in client.standings("mech-duel", as_of=1).items:
            sys.stdout.write(f"{row.rank:3} {row.name:24} {row.rating:7.1f} {row.deviation:6.1f}\n")


def closed(address: Path) -> bool:
    """Return whether a rating period has closed; a league that does not answer yet has none."""
    if not address.exists():
        return False
    try:
        with LeagueClient(address.read_text().strip()) as client:
            return bool(client.periods().items)
    except LeagueError:
        return False


if __name__ == "__main__":
    main()
