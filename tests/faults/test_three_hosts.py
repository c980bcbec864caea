"""A main and both exploiters on hosts of their own, two servers, PostgreSQL and an object store: one league."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import hosts
import postgres_server
import pytest
import s3_server
from distant_league import address, until
from fault_proxy import Address, passing_on
from kills.fleet import ENVIRONMENT, PACE, SERVER, SMALL
from kills.processes import Command
from kills.verdict import Keeper, judge
from league_tokens import make_token

from arena.policies.checkpoint import decode
from league.client import LeagueClient
from league.errors import LeagueError

ROLES = "main", "main_exploiter", "league_exploiter"
STARTING_S = 900.0


@dataclass(frozen=True)
class Left:
    """A league, to be judged."""

    folder: Path
    database_url: str
    variables: Mapping[str, str]
    workers: Sequence[Command]


@pytest.fixture
def three() -> Iterator[hosts.Hosts]:
    with hosts.connected(3) as made:
        yield made


@dataclass(frozen=True)
class Running:
    """Two servers behind one address, and where they keep everything."""

    servers: Sequence[Command]
    database_url: str
    variables: Mapping[str, str]
    url: str
    token: str


@pytest.fixture
def running(three: hosts.Hosts, tmp_path: Path) -> Iterator[Running]:
    (tmp_path / "home").mkdir()
    with ExitStack() as stack:
        database = stack.enter_context(postgres_server.killable())
        store = stack.enter_context(s3_server.running())
        road = stack.enter_context(passing_on(lambda: [address(store.url)], three.here))
        token = make_token(database.url)
        variables = {
            **SERVER,
            "LEAGUE_HOST": three.here,
            "LEAGUE_HOME": str(tmp_path / "home"),
            "LEAGUE_DATABASE_URL": database.url,
            "LEAGUE_STORE_URL": f"s3://{store.bucket()}/one",
            "LEAGUE_STORE_ENDPOINT_URL": road.url,
            "AWS_ACCESS_KEY_ID": s3_server.KEY,
            "AWS_SECRET_ACCESS_KEY": s3_server.SECRET,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }
        serve = ["league", "serve", "--port", "0"]
        servers = [Command("server", serve, variables, tmp_path / f"server-{number}.log") for number in range(2)]
        for server in servers:
            server.start()
            stack.callback(server.end)
        until(lambda: len(listening(servers)) == len(servers))
        front = stack.enter_context(passing_on(lambda: listening(servers), three.here))
        yield Running(servers, database.url, variables, front.url, token)


@pytest.fixture
def trainers(running: Running, three: hosts.Hosts, tmp_path: Path) -> Iterator[list[Command]]:
    secret = {"LEAGUE_TOKEN": running.token}
    started = [
        Command("trainer", trains(role, running.url, tmp_path), secret, tmp_path / f"{role}.log", host)
        for role, host in zip(ROLES, three.names, strict=True)
    ]
    for trainer in started:
        trainer.start()
    yield started
    for trainer in started:
        trainer.end()


@pytest.mark.slow
@pytest.mark.timeout(STARTING_S)
def test_three_learners_on_three_hosts_make_one_league_also_while_a_cable_is_out(
    running: Running, trainers: list[Command], three: hosts.Hosts, tmp_path: Path
) -> None:
    with LeagueClient(running.url, token=running.token) as client:

        def further(roles: Sequence[str], before: Mapping[str, int]) -> bool:
            for command in (*running.servers, *trainers):
                assert command.pid is not None, command.said()
            now = steps(client)
            return all(now.get(role, 0) > before.get(role, 0) for role in roles)

        def go_on(*roles: str) -> None:
            until(lambda: further(roles, {}))
            before = steps(client)
            until(lambda: further(roles, before))

        go_on(*ROLES)
        three.unplug(three.names[1])
        go_on(ROLES[0], ROLES[2])
        three.plug_in(three.names[1])
        go_on(*ROLES)
        until(lambda: client.players(ENVIRONMENT, kind="snapshot").items)
        assert [trainer.terminate() for trainer in trainers] == [0, 0, 0]
        client.close_period(ENVIRONMENT)
        for snapshot in client.players(ENVIRONMENT, kind="snapshot").items:
            decode(client.download(str(snapshot.checkpoint)), device="cpu", source=snapshot.name)
    for server in running.servers:
        server.terminate()
    keeper = Keeper(tmp_path / "results")
    for trainer in trainers:
        keeper.look(trainer)
    verdict = judge(Left(tmp_path, running.database_url, running.variables, trainers), keeper, [])
    assert verdict.broken == []
    named = {f"trainer-{role.replace('_', '-')}-{ENVIRONMENT}" for role in ROLES}
    assert {name for name, matches in verdict.matches.items() if matches} == named


def steps(client: LeagueClient) -> dict[str, int]:
    """How far each learner has come, by its role; empty while the league does not answer."""
    try:
        return {learner.role: learner.step or 0 for learner in client.learners(ENVIRONMENT).items}
    except LeagueError:
        return {}


def listening(servers: Sequence[Command]) -> list[Address]:
    said = [server.said().partition("listening on ")[2].partition(";")[0] for server in servers]
    return [address(url) for url in said if url]


def trains(role: str, url: str, folder: Path) -> list[str]:
    settings = (*SMALL, *PACE, "league.snapshot_every_steps=2000", "league.timeout_s=5")
    where = ("--url", url, "--run", str(folder / role), "--environment", ENVIRONMENT)
    learner = ("--learner", role.replace("_", "-"), "--role", role)
    return ["trainer", "run", *where, *learner, *(word for each in settings for word in ("--set", each))]
