"""Matches that several processes step are those that one steps, whatever becomes of the processes."""

import logging
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch
from refused import assert_names, refused

from arena.environments import make
from arena.environments.adapters.subprocess.env import SyncBatch
from arena.environments.base import AwaitedEnvironment, StepResult, supports
from arena.policies.scripted import RandomPolicy
from arena.seeding import derive

E, FRAGILE = 5, "zoo_games:fragile"
PATIENCE_S = 120.0
"""Longest wait for what takes milliseconds where nothing else runs."""


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What breaks a fragile game: nothing yet."""
    monkeypatch.setenv("FRAGILE", str(tmp_path / "trap"))
    return tmp_path / "trap"


def play(env: SyncBatch, steps: int) -> Iterator[StepResult]:
    rng, player, observation = torch.Generator().manual_seed(0), RandomPolicy(env.spec.heads), env.reset()
    for _ in range(steps):
        rows = observation.side(slice(0, env.spec.num_agents))
        actions, _ = player.act(rows, (), rows.active, rng)
        step = env.step({name: action.unflatten(0, (E, -1)) for name, action in actions.items()})
        yield step
        observation = step.observation


def alive(process: int) -> bool:
    """Whether it runs: one that has ended, and that nobody has asked about, does not."""
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def wait_until_gone(processes: list[int]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while any(map(alive, processes)):
        assert time.monotonic() < deadline, "processes were left behind"
        time.sleep(0.01)


def same(here: StepResult, there: StepResult) -> None:
    for name in ("reward", "terminated", "truncated", "match_over"):
        assert torch.equal(getattr(here, name), getattr(there, name)), name
    for seen in ("observation", "final_observation"):
        mine, theirs = getattr(here, seen), getattr(there, seen)
        assert torch.equal(mine.values, theirs.values)
        assert torch.equal(mine.masks["action"], theirs.masks["action"])
        assert torch.equal(mine.active, theirs.active)
    assert torch.equal(here.outcome.score, there.outcome.score)
    assert torch.equal(here.outcome.decisions, there.outcome.decisions)


@pytest.mark.integration
def test_the_number_of_processes_changes_nothing_that_is_played():
    for count in (1, 2):
        one, other = (make("zoo_games:relay", num_envs=E, seed=3, processes=processes) for processes in (0, count))
        for here, there in zip(play(one, 40), play(other, 40), strict=True):
            same(here, there)
        assert torch.equal(one.seeds, other.seeds)
        assert int(one._episodes.min()) >= 3


@pytest.mark.integration
@pytest.mark.parametrize("game", ["zoo_games:relay", "zoo_games:relay:rounds=2"])
def test_halves_of_a_batch_are_matches_like_others_though_both_are_under_way_at_a_time(game: str):
    halves = make(game, num_envs=E, seed=3, processes=3).halves()  # two of them begin with an odd row
    alone = [make(game, num_envs=rows, seed=derive(3, "half", number)) for number, rows in enumerate((3, 2))]
    assert all(half.halves() == [half] for half in halves)
    plays = [played_on_demand(env) for env in (*halves, *alone)]
    steps: list[StepResult] = []
    for _ in range(40):
        for begin, _ in plays[:2]:
            begin()
        steps = [finish() for _, finish in plays[:2]]
        for (begin, finish), there in zip(plays[2:], steps, strict=True):
            begin()
            same(finish(), there)
    assert all(torch.equal(half.seeds, other.seeds) for half, other in zip(halves, alone, strict=True))
    assert int(halves[1]._episodes.min()) >= 2


def played_on_demand(env: AwaitedEnvironment | SyncBatch) -> tuple[Callable[[], None], Callable[[], StepResult]]:
    """What begins a decision by random actions, and what waits for it; where others do not play it, all in the second.

    The last decision's result is taken for what is seen next.
    """
    rng, player, shown = torch.Generator().manual_seed(0), RandomPolicy(env.spec.heads), [env.reset()]
    taken: dict[str, torch.Tensor] = {}

    def begin() -> None:
        rows = shown[0].side(slice(0, env.spec.num_agents))
        actions, _ = player.act(rows, (), rows.active, rng)
        taken.update({name: action.unflatten(0, (env.num_envs, -1)) for name, action in actions.items()})
        if supports(env, AwaitedEnvironment):
            env.send(taken)

    def finish() -> StepResult:
        step = env.receive() if supports(env, AwaitedEnvironment) else env.step(taken)
        shown[0] = step.observation
        return step

    return begin, finish


@pytest.mark.integration
def test_a_batch_of_one_match_has_no_halves():
    (env,) = make("zoo_games:relay", num_envs=1, processes=1).halves()
    assert env.num_envs == 1


@pytest.mark.integration
@pytest.mark.parametrize(
    ("other", "lost_now", "lost_next"),
    [("idle", None, True), ("told after it", True, False), ("told before it", False, True)],
)
def test_process_death_restarts_matches_of_both_halves(trap: Path, other: str, lost_now: bool | None, lost_next: bool):
    """Matches of one half die at their third decision; those of the other are at their second."""
    one, two = make(FRAGILE, num_envs=4, seed=1, processes=1).halves()
    (begin, finish), (begin_two, finish_two) = played_on_demand(one), played_on_demand(two)
    for call in (begin, begin_two, finish, finish_two, begin, finish):
        call()
    if other == "told before it":
        begin_two()
        assert two._workers.each[0]._connection.poll(PATIENCE_S), "it is played before there is a trap"
    trap.write_text("killed")
    begin()
    if other == "told after it":
        begin_two()
    assert finish().truncated.all()
    if lost_now is not None:
        step = finish_two()
        assert [bool(ended) for ended in step.truncated] == [lost_now] * 2
        assert step.outcome.decisions.tolist() == [0 if lost_now else 2] * 2
    begin_two()
    step = finish_two()
    assert [bool(ended) for ended in step.truncated] == [lost_next] * 2
    assert not step.over.any()
    for begins, finishes, played in ((begin, finish, 0), (begin_two, finish_two, 0 if lost_next else 1)):
        lengths = [next_step(begins, finishes) for _ in range(5 - played)]
        assert [bool(step.over.all()) for step in lengths] == [False] * (4 - played) + [True]
        assert lengths[-1].outcome.decisions.tolist() == [5, 5], "whole matches, from their start"


def next_step(begin: Callable[[], None], finish: Callable[[], StepResult]) -> StepResult:
    begin()
    return finish()


@pytest.mark.integration
def test_decisions_are_begun_and_waited_for_in_turn():
    (one, _) = make("zoo_games:relay", num_envs=4, seed=1, processes=1).halves()
    begin, finish = played_on_demand(one)
    with refused("call-order"):
        one.receive()
    begin()
    with refused("call-order"):
        begin()
    seeds = torch.tensor([5, 7])
    opened = one.reset(seeds)
    assert torch.equal(opened.values, one.reset(seeds).values), "what was under way is forgotten"
    assert next_step(begin, finish).outcome.decisions.tolist() == [1, 1]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("way", "cause"),
    [
        ("killed", "killed by SIGKILL"),
        ("raised", "RuntimeError: the fence is broken"),
        ("left", "SystemExit: the sheep sleep"),
    ],
)
def test_matches_of_a_dead_process_are_replayed_without_a_score(trap: Path, caplog, way: str, cause: str):
    env = make(FRAGILE, num_envs=E, seed=1, processes=2)
    played = play(env, 11)
    before = [next(played) for _ in range(2)][-1].observation
    seeds = env.seeds.clone()
    trap.write_text(way)
    with caplog.at_level(logging.WARNING):
        lost = next(played)
    (record,) = caplog.records
    assert cause in record.message
    assert ("tests/support/zoo_games.py" in record.message) is (way != "killed"), "the traceback says where"
    rows = lost.truncated
    assert 2 <= int(rows.sum()) <= 3
    assert not lost.over.any()
    assert not lost.terminated.any()
    assert torch.equal(lost.outcome.score, torch.full((E,), 0.5, dtype=torch.float64))
    assert not lost.reward[rows].any()
    assert torch.equal(lost.final_observation.values[rows], before.values[rows]), "what was shown last"
    assert torch.equal(env.seeds, seeds), "the same matches"
    rest = list(played)
    lengths = torch.stack([step.outcome.decisions for step in rest])[torch.stack([step.over for step in rest])]
    assert set(lengths.tolist()) == {5}, "whole matches, from their start"
    over_at = torch.stack([step.over for step in rest]).int().argmax(dim=0)
    assert over_at[rows].tolist() == [4] * int(rows.sum())
    assert over_at[~rows].tolist() == [1] * int((~rows).sum())


@pytest.mark.integration
def test_lost_turn_based_match_ends_with_the_last_observations(trap: Path):
    """Three have had a turn, the fourth has it: what they are owed is what they then hoped for."""
    env = make("zoo_games:brittle", num_envs=E, seed=1, processes=1)
    played = play(env, 4)
    by_turn = [(2, next(played)), (1, next(played))]
    trap.write_text("killed")
    by_turn.append((3, next(played)))
    lost = next(played)
    assert lost.truncated.all()
    assert not lost.over.any()
    assert lost.final_observation.active.all(), "also red_0, who moved first"
    assert lost.final_observation.values[:, 0, :-1].any(dim=1).all()
    for agent, step in by_turn:
        assert step.observation.active[:, agent].all()
        assert torch.equal(lost.final_observation.values[:, agent], step.observation.values[:, agent])
        assert torch.equal(lost.final_observation.masks["action"][:, agent], step.observation.masks["action"][:, agent])


@pytest.mark.integration
def test_a_game_that_breaks_again_and_again_is_given_up_with_the_cause(trap: Path):
    trap.write_text("killed always")
    env = make(FRAGILE, num_envs=E, seed=1, processes=2)
    with refused("lost-matches", 0, 1, 3, "SIGKILL"):
        list(play(env, 20))


@pytest.mark.integration
def test_hanging_process_is_replaced_and_dumps_its_stack(
    trap: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    env = make(FRAGILE, num_envs=E, seed=1, processes=1)
    played = play(env, 11)
    next(played)
    trap.write_text("stalled")
    poll = Connection.poll

    def run_out_of_patience(orders: Connection, limit_s: float) -> bool:
        """Wait until the game stands still, which it does after it has taken the trap away."""
        deadline = time.monotonic() + PATIENCE_S
        while not poll(orders, 0.01):
            if not trap.exists() and next(patience, None):
                return False
            assert time.monotonic() < deadline
        return True

    patience = iter(["once"])
    monkeypatch.setattr(Connection, "poll", run_out_of_patience)
    with caplog.at_level(logging.WARNING):
        steps = [next(played) for _ in range(2)]
    (record,) = caplog.records
    assert_names(record.message, "120 s")
    assert "in _stall" in capfd.readouterr().err, "the traceback of the process"
    assert [bool(step.truncated.all()) for step in steps] == [False, True]
    assert bool(list(played)[4].over.all()), "a whole match, from its start"


@pytest.mark.integration
def test_game_that_always_hangs_is_abandoned():
    env = make("zoo_games:endless", num_envs=E, processes=1, step_limit_s=0.2)
    with refused("lost-matches", 3, 0.2):
        list(play(env, 3))


@pytest.mark.parametrize("limit_s", [0.0, -1.0, math.nan, math.inf])
def test_a_limit_of_a_step_that_makes_no_sense_is_refused(limit_s: float):
    with refused("invalid-input", limit_s, 0):
        make("zoo_games:relay", num_envs=1, processes=1, step_limit_s=limit_s)


@pytest.mark.integration
def test_a_game_that_another_process_does_not_find_is_refused_at_once(monkeypatch: pytest.MonkeyPatch):
    env = make(FRAGILE, num_envs=1)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if not path.endswith("support")])
    with refused("lost-matches", "zoo_games"):
        make(FRAGILE, num_envs=E, processes=1)
    assert env.spec.name == FRAGILE


def test_game_exception_names_its_match(trap: Path):
    trap.write_text("raised")
    with pytest.raises(RuntimeError, match="the fence is broken") as raised:
        list(play(make(FRAGILE, num_envs=E, seed=1), 5))
    assert raised.value.__notes__ == [f"in decision 3 of match 0 of {FRAGILE}"]


@pytest.mark.integration
def test_processes_end_with_the_environment(trap: Path):
    env = make(FRAGILE, num_envs=E, processes=3)
    processes = [worker._process.pid for worker in env._workers.each]
    assert all(map(alive, processes))
    del env
    wait_until_gone(processes)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("game", "ending"), [("zoo_games:endless", signal.SIGKILL), ("zoo_games:relay", signal.SIGINT)]
)
def test_child_processes_end_with_their_parent(game: str, ending: signal.Signals):
    """Killed in the middle of a decision, or stopped by Ctrl-C, which goes to all of a terminal's processes."""
    script = (
        "import signal, sys, torch\\nfrom arena.environments import make\\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background would ignore it\\n"
        f"env = make({game!r}, num_envs=2, processes=2)\\nobservation = env.reset()\\n"
        "actions = {'action': torch.zeros(2, env.spec.num_agents, dtype=torch.int64)}\\n"
        "try:\\n    print(*(worker._process.pid for worker in env._workers.each), flush=True)\\n"
        "    while True: env.step(actions)\\nexcept KeyboardInterrupt: sys.exit(3)\\n"
    ).replace("\\n", "\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    ) as started:
        assert started.stdout is not None
        assert started.stderr is not None
        processes = [int(each) for each in started.stdout.readline().split()]
        assert len(processes) == 2
        assert all(map(alive, processes))
        os.killpg(started.pid, ending)
        try:
            _, said = started.communicate(timeout=PATIENCE_S)
        finally:
            started.kill()
        assert started.returncode == (3 if ending is signal.SIGINT else -ending)
        assert said == ""
    wait_until_gone(processes)


def test_numbers_of_processes_that_make_no_sense_are_refused():
    with refused("invalid-input", -1, 0):
        make("zoo_games:relay", num_envs=1, processes=-1)
    with refused("invalid-input", "rps", 2):
        make("rps", num_envs=1, processes=2)
    with refused("invalid-input", 0, 1):
        make("zoo_games:relay", num_envs=0, processes=2)


@pytest.mark.integration
def test_rounds_lost_with_a_process_are_replayed(trap: Path):
    env = make(f"{FRAGILE}:rounds=2", num_envs=E, seed=1, processes=1)
    played = play(env, 14)
    next(played)
    trap.write_text("killed")
    steps = list(played)
    over = torch.stack([step.over for step in steps])
    assert over.sum(dim=0).tolist() == [1] * E
    assert over.int().argmax(dim=0).tolist() == [11] * E, "two decisions and the third are lost, then ten are played"
    assert steps[11].outcome.decisions.tolist() == [10] * E
