"""Does a league pay? Exploitability and forgetting of a main from a league, and of one from self-play.

    python -m studies.league_value --game openspiel:kuhn_poker:rounds=20 --seeds 5 --steps 13000000 --jobs 2

Per seed and condition a league server and its trainers run on loopback, one thread each; all conditions have the same
environment steps, all learners counted. Of a league's steps all learners have as many, or its main has `--main-share`:
exploiters are then held to its pace, so that all come to their ends together. What has finished is kept under `--out`,
and the same command goes on with the rest: interrupted trainers where they were saved. Another size needs another
folder. A run of the default size takes hours.
"""

import argparse
import json
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

from arena.errors import ArenaError
from studies.league_value import conditions, report
from studies.league_value.games import game_of
from studies.league_value.measures import Outcome, Point, measure
from studies.league_value.pace import Pace
from studies.league_value.training import Training
from league.cli.up.plan import Trainee

POLL_S = 0.5
SAY_S = 10.0
LEAD = 0.01
"""How much further than the main an exploiter may be on its way, where the main has a share of its own."""


def main() -> None:
    """Train what is missing, measure it, and print what came of all."""
    arguments = parse(sys.argv[1:])
    folder = arguments.out / arguments.game.replace(":", "-")
    folder.mkdir(parents=True, exist_ok=True)
    with interruptible():
        train(arguments, folder)
    outcomes = {name: [read(folder, name, seed) for seed in range(arguments.seeds)] for name in arguments.conditions}
    (folder / "curves.svg").write_text(report.curves(f"Exploitability in {arguments.game}", outcomes))
    if arguments.json:
        print(json.dumps({"plan": plan(arguments), "summary": report.summary(outcomes)}, indent=2))
    else:
        print(report.table(outcomes))


def parse(words: list[str]) -> argparse.Namespace:
    """Read the command line.

    Raises:
        SystemExit: It says something that is not possible.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--game", default="openspiel:kuhn_poker:rounds=20", help="rps, or a game of OpenSpiel, plain or in rounds"
    )
    parser.add_argument("--seeds", type=count, default=5, help="how many runs of each condition")
    parser.add_argument("--steps", type=count, default=13_000_000, help="environment steps of all learners of a run")
    parser.add_argument("--jobs", type=count, default=1, help="runs at once")
    parser.add_argument("--conditions", nargs="+", choices=conditions.NAMES, default=list(conditions.NAMES))
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="setting of all trainers; repeatable"
    )
    for option, whose in (("--set-main", "a league's main"), ("--set-exploiters", "exploiters")):
        parser.add_argument(
            option, action="append", default=[], metavar="SECTION.KEY=VALUE", help=f"the same of {whose} alone"
        )
    parser.add_argument(
        "--main-share", type=share, help="of a league's steps that its main has; default: all learners as many"
    )
    parser.add_argument("--out", type=Path, default=Path("var/league_value"), help="where runs are kept")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args(words)
    try:
        game_of(arguments.game)
    except (ValueError, ArenaError) as error:
        parser.error(str(error))
    return arguments


def count(text: str) -> int:
    """Read a whole number above 0."""
    number = int(text.replace("_", ""))
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is too few: give 1 or more")
    return number


def share(text: str) -> float:
    """Read a share above 0 and under 1."""
    number = float(text)
    if not 0.0 < number < 1.0:
        raise argparse.ArgumentTypeError(f"{text} leaves somebody no steps: give more than 0 and less than 1")
    return number


def plan(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what runs must share to be compared."""
    told = {
        "game": arguments.game,
        "steps": arguments.steps,
        "set": arguments.set,
        "main": arguments.set_main,
        "exploiters": arguments.set_exploiters,
    }
    return told | ({"main_share": arguments.main_share} if arguments.main_share else {})


def train(arguments: argparse.Namespace, folder: Path) -> None:
    """Train and measure all runs that have no result yet, some at a time.

    Raises:
        SystemExit: A trainer failed, or the folder has results of another plan.
    """
    wanted = [(name, seed) for seed in range(arguments.seeds) for name in arguments.conditions]
    waiting = [run for run in wanted if not kept(arguments, folder, *run)]
    running: dict[tuple[str, int], Training] = {}
    paces: dict[tuple[str, int], Pace] = {}
    say_at_s = time.monotonic()
    try:
        while waiting or running:
            while waiting and len(running) < arguments.jobs:
                run = waiting.pop(0)
                running[run] = training(arguments, folder, *run)
                running[run].start()
                paces[run] = paced(arguments, running[run])
            for run in [run for run, each in running.items() if each.finished()]:
                finish(arguments, folder, *run, running[run])
                del paces[run]
                running.pop(run).stop()
                shutil.rmtree(work(folder, *run))
            for pace in paces.values():
                pace.keep()
            if time.monotonic() >= say_at_s:
                say_at_s = time.monotonic() + SAY_S
                print(progress(arguments.steps, len(wanted) - len(waiting), running), file=sys.stderr, flush=True)
            time.sleep(POLL_S)
    finally:
        for pace in paces.values():
            pace.release()
        for each in running.values():
            each.stop()


def paced(arguments: argparse.Namespace, run: Training) -> Pace:
    """Return what holds exploiters to their main's pace; nobody is held where all have as many steps."""
    main, *others = run.condition.trainees
    names = {process: name for name, process in run.processes.items()}
    wanted = {each.name: run.condition.steps_of(each, arguments.steps) for each in (main, *others)}

    def far(process: int) -> float:
        return run.steps()[names[process]] / wanted[names[process]]

    held = others if arguments.main_share else []
    return Pace(run.processes[main.name], [run.processes[each.name] for each in held], far, LEAD)


def progress(steps: int, begun: int, running: Mapping[tuple[str, int], Training]) -> str:
    """Tell how many runs have finished, and how far the others are."""
    shares = [
        f", {name} of seed {seed} at {sum(each.steps().values()) / steps:.0%}" for (name, seed), each in running.items()
    ]
    return f"{begun - len(running)} runs done{''.join(shares)}"


def training(arguments: argparse.Namespace, folder: Path, name: str, seed: int) -> Training:
    """Return a run that is about to start."""
    chosen = conditions.condition(name, arguments.game, arguments.main_share)

    def settings(trainee: Trainee) -> list[str]:
        common = chosen.trainer_settings(trainee, arguments.steps, seed)
        return [*common, *arguments.set, *role_settings(arguments, name, trainee)]

    return Training(arguments.game, chosen, settings, work(folder, name, seed))


def role_settings(arguments: argparse.Namespace, condition: str, trainee: Trainee) -> list[str]:
    """Return the settings that a learner has by its role; those of a main are for a league's alone."""
    if trainee.role != "main":
        return list(arguments.set_exploiters)
    return list(arguments.set_main) if condition == "league" else []


def finish(arguments: argparse.Namespace, folder: Path, name: str, seed: int, run: Training) -> None:
    """Measure a run that has ended, and keep the result."""
    game, main_share = game_of(arguments.game), run.condition.main_share
    outcome = measure(run.client, arguments.game, game, run.run_folder("main"), main_share)
    text = json.dumps({"plan": plan(arguments), "outcome": asdict(outcome)}, indent=1)
    unfinished = result(folder, name, seed).with_suffix(".part")
    unfinished.write_text(text)
    unfinished.replace(result(folder, name, seed))


def kept(arguments: argparse.Namespace, folder: Path, name: str, seed: int) -> bool:
    """Say whether a run has a result.

    Raises:
        SystemExit: It has one of another plan.
    """
    file = result(folder, name, seed)
    if not file.exists():
        return False
    found = json.loads(file.read_text())["plan"]
    if found != plan(arguments):
        raise SystemExit(f"{file} is of {found}, not of {plan(arguments)}: ask for that, or give another --out")
    return True


def read(folder: Path, name: str, seed: int) -> Outcome:
    """Return a result that was kept."""
    told = json.loads(result(folder, name, seed).read_text())["outcome"]
    return Outcome(**{**told, "curve": [Point(**point) for point in told["curve"]]})


def result(folder: Path, name: str, seed: int) -> Path:
    """Return where a run's result is kept."""
    return folder / f"{name}-{seed}.json"


def work(folder: Path, name: str, seed: int) -> Path:
    """Return where a run lives until it has a result."""
    return folder / f"{name}-{seed}"


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the program in one line; while what runs is saved, further ones change nothing."""
    caught = (signal.SIGINT, signal.SIGTERM)

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        for number in caught:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in caught:
        signal.signal(number, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        raise SystemExit("interrupted; the same command goes on") from None


if __name__ == "__main__":
    main()
