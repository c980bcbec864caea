"""Does a league pay in a game without exact values? Mains of a league and of self-play against a pool of strangers.

    python -m studies.strangers --game mech-duel --seeds 5 --seconds 1800

First the strangers are trained, each alone, from seeds and recipes of their own, and rated among each other. Then mains
of every condition and seed are trained for the same time. At the end, and at marks on the way, they meet all strangers.
Everything is kept under `--out`: the same command goes on after an interruption, trainers where they were saved, and
other runs over the same pool take it as it is. Another size needs another folder.

Time is processor seconds, so that other work on the machine does not count. By the clock `wall` they are those of the
main's trainer, and exploiters' trainers are held to its pace: wall time where each has a processor of its own. By
`processor` they are those of the server and all trainers together.
"""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from arena.environments import declare
from arena.errors import ArenaError
from arena.play.series import CHECKPOINT_SUFFIX, resolve_policy
from arena.policies.checkpoint import NEWEST
from arena.policies.protocol import Policy
from arena.ratings.glicko2 import Ratings
from studies.league_value.__main__ import count, interruptible, role_settings
from studies.league_value import conditions, rivalry
from studies.league_value.meter import Meter, seconds_of, started_s
from studies.league_value.pace import Pace
from studies.league_value.recipes import FIRST_SEED, RECIPES, Stranger, strangers
from studies.league_value.rivalry import Mark, Race
from studies.league_value.rivals import Pool, Standing, rated, stand
from studies.league_value.training import Training
from league.cli.up.plan import Trainee

CLOCKS = {
    "wall": "seconds, each trainer with a processor of its own",
    "processor": "processor seconds of all processes of a run",
}
"""What the seconds of a run are, by the name of the clock."""

POLL_S = 0.5
SAY_S = 10.0
MATCH_SEED = 7
MAIN = "main"
METRICS = "metrics.jsonl"
LEARNERS = "learners.json"


def main() -> None:
    """Train what is missing, value it, and print what came of all."""
    arguments = parse(sys.argv[1:])
    torch.set_num_threads(1)
    folder = arguments.out / arguments.game.replace(":", "-")
    with interruptible():
        pool = gather(arguments, folder / "pool")
        for seed in range(arguments.seeds):
            for name in arguments.conditions:
                race(arguments, folder, pool, name, seed)
    races = {name: [read(folder, name, seed) for seed in range(arguments.seeds)] for name in arguments.conditions}
    (folder / "curves.svg").write_text(
        rivalry.curves(f"Among {len(pool.players)} strangers in {arguments.game}", CLOCKS[arguments.clock], races)
    )
    if arguments.json:
        print(json.dumps({"plan": plan(arguments), "summary": rivalry.summary(races)}, indent=2))
    else:
        print(rivalry.table(races))


def parse(words: list[str]) -> argparse.Namespace:
    """Read the command line.

    Raises:
        SystemExit: It says something that is not possible.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--game", default="mech-duel", help="any environment; `arena environments` lists them")
    parser.add_argument("--seeds", type=count, default=5, help="how many runs of each condition")
    parser.add_argument("--seconds", type=count, default=1800, help="of a run, on the clock")
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall", help="wall: a trainer each; processor: all")
    parser.add_argument("--marks", type=count, default=6, help="how often a main is valued, evenly over its run")
    parser.add_argument("--conditions", nargs="+", choices=conditions.NAMES, default=["league", "self-play"])
    parser.add_argument("--recipes", nargs="+", choices=list(RECIPES), default=list(RECIPES), help="of the strangers")
    parser.add_argument("--copies", type=count, default=2, help="strangers of each recipe")
    parser.add_argument("--stranger-steps", type=count, default=3_000_000, help="environment steps of each stranger")
    parser.add_argument("--matches", type=count, default=200, help="against each stranger; sides swap in pairs")
    parser.add_argument("--pool-matches", type=count, default=40, help="between every two strangers")
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="setting of all mains and exploiters"
    )
    for option, whose in (("--set-main", "a league's main"), ("--set-exploiters", "exploiters")):
        parser.add_argument(
            option, action="append", default=[], metavar="SECTION.KEY=VALUE", help=f"the same of {whose} alone"
        )
    parser.add_argument("--out", type=Path, default=Path("var/strangers"), help="where everything is kept")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args(words)
    if arguments.seeds > FIRST_SEED:
        parser.error(f"--seeds {arguments.seeds}: at most {FIRST_SEED}, for those from there on are the strangers'")
    try:
        declare(arguments.game)
    except ArenaError as error:
        parser.error(str(error))
    return arguments


def pool_plan(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what makes a pool another one."""
    return {
        "game": arguments.game,
        "signature": declare(arguments.game).signature,
        "steps": arguments.stranger_steps,
        "recipes": {name: list(RECIPES[name]) for name in arguments.recipes},
        "copies": arguments.copies,
        "matches": arguments.pool_matches,
    }


def plan(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what runs must share to be compared."""
    return {
        "pool": pool_plan(arguments),
        "seconds": arguments.seconds,
        "clock": arguments.clock,
        "marks": arguments.marks,
        "matches": arguments.matches,
        "set": arguments.set,
        "main": arguments.set_main,
        "exploiters": arguments.set_exploiters,
    }


def gather(arguments: argparse.Namespace, folder: Path) -> Pool:
    """Train and rate all strangers that are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    check(folder / "plan.json", pool_plan(arguments))
    write(folder / "plan.json", pool_plan(arguments))
    wanted = strangers(arguments.recipes, arguments.copies)
    for place, stranger in enumerate(wanted):
        if not checkpoint(folder, stranger.name).exists():
            say(f"stranger {place + 1} of {len(wanted)}, {stranger.name}, is trained")
            train_stranger(arguments, folder, stranger)
    players = {each.name: load(arguments, checkpoint(folder, each.name)) for each in wanted}
    kept = folder / "ratings.json"
    if not kept.exists():
        say("strangers are rated")
        ratings = rated(arguments.game, players, matches=arguments.pool_matches, seed=MATCH_SEED).ratings
        write(kept, {name: column.tolist() for name, column in vars(ratings).items()})
    columns = {name: np.array(column) for name, column in json.loads(kept.read_text()).items()}
    return Pool(arguments.game, players, Ratings(**columns))


def train_stranger(arguments: argparse.Namespace, folder: Path, stranger: Stranger) -> None:
    """Train a stranger for its steps and keep its weights alone."""

    def settings(trainee: Trainee) -> list[str]:
        return stranger.condition.trainer_settings(trainee, arguments.stranger_steps, stranger.seed)

    run = Training(arguments.game, stranger.condition, settings, folder / f"{stranger.name}-run")
    run.start()
    try:
        while not run.finished():
            time.sleep(POLL_S)
    finally:
        run.stop()
    keep(run.run_folder(MAIN) / NEWEST, checkpoint(folder, stranger.name))
    shutil.rmtree(run.folder)


def race(arguments: argparse.Namespace, folder: Path, pool: Pool, name: str, seed: int) -> None:
    """Train a condition's main for its time and value it, unless there is a result."""
    result = folder / f"{name}-{seed}.json"
    if result.exists():
        check(result, plan(arguments))
        return
    work = folder / f"{name}-{seed}"
    run = training(arguments, work, name, seed)
    steps, resets = run_for(arguments, run, f"{name} of seed {seed}")
    say(f"{name} of seed {seed} is valued")
    marks = [valued(arguments, pool, work, number) for number in range(1, arguments.marks + 1)]
    write(result, plan(arguments) | {"race": asdict(Race(marks, steps, resets))})
    shutil.rmtree(work)


def training(arguments: argparse.Namespace, work: Path, name: str, seed: int) -> Training:
    """Return a run that is about to start; it would train for ever."""
    chosen = conditions.condition(name, arguments.game)
    common = [f"run.seed={seed}", "run.save_every_updates=5", "league.heartbeat_s=1"]

    def settings(trainee: Trainee) -> list[str]:
        return [*common, *chosen.settings, *arguments.set, *role_settings(arguments, name, trainee)]

    return Training(arguments.game, chosen, settings, work)


def run_for(arguments: argparse.Namespace, run: Training, title: str) -> tuple[dict[str, int], int]:
    """Train until the time is used up.

    Returns:
        Environment steps of each learner, and how often learners began anew.
    """
    run.folder.mkdir(parents=True, exist_ok=True)
    meter = Meter(run.folder / "seconds", lambda: used_s(arguments, run))
    if meter.read() < arguments.seconds:
        run.start()
        try:
            wait_until_learning(run)
            meter.start()
            with paced(arguments, run) as pace:
                follow(arguments, run, meter, pace, title)
        finally:
            run.stop()
    keep(run.run_folder(MAIN) / NEWEST, mark_file(run.folder, arguments.marks))
    told = json.loads((run.folder / LEARNERS).read_text())
    return told["steps"], told["resets"]


def used_s(arguments: argparse.Namespace, run: Training) -> float:
    """Return what the clock says of the processes that run now."""
    return seconds_of({run.processes[MAIN]}) if arguments.clock == "wall" else started_s()


def paced(arguments: argparse.Namespace, run: Training) -> Pace:
    """Return what holds a run's trainers to its main's pace; where all seconds count together, nobody is held."""
    others = [process for name, process in run.processes.items() if name != MAIN]
    return Pace(run.processes[MAIN], others if arguments.clock == "wall" else [])


def follow(arguments: argparse.Namespace, run: Training, meter: Meter, pace: Pace, title: str) -> None:
    """Watch a run until its time is over; keep its main's weights at every mark, and how far its learners came."""
    say_at_s = time.monotonic()
    while (seconds := meter.read()) < arguments.seconds:
        require_running(run)
        pace.keep()
        for number in range(1, 1 + int(seconds * arguments.marks / arguments.seconds)):
            if not mark_file(run.folder, number).exists():
                keep(run.run_folder(MAIN) / NEWEST, mark_file(run.folder, number))
        if time.monotonic() >= say_at_s:
            say_at_s = time.monotonic() + SAY_S
            say(f"{title}: {seconds:,.0f} of {arguments.seconds:,} s")
        time.sleep(POLL_S)
    listed = run.client.learners(arguments.game).items
    told = {"steps": {each.name: each.step or 0 for each in listed}, "resets": sum(each.resets for each in listed)}
    write(run.folder / LEARNERS, told)


def wait_until_learning(run: Training) -> None:
    """Wait until every trainer has made an update in this session."""
    files = [run.run_folder(trainee.name) / METRICS for trainee in run.condition.trainees]
    before = {file: size(file) for file in files}
    while any(size(file) <= before[file] for file in files):
        require_running(run)
        time.sleep(POLL_S)


def require_running(run: Training) -> None:
    """Refuse to wait for trainers that have ended.

    Raises:
        SystemExit: They have; one that failed is told.
    """
    if run.finished():
        raise SystemExit(f"the trainers in {run.folder} ended before their time; their logs there say why")


def valued(arguments: argparse.Namespace, pool: Pool, work: Path, number: int) -> Mark:
    """Value a main as it was at a mark."""
    player = load(arguments, mark_file(work, number))
    standing = stand(pool, player, matches=arguments.matches, seed=MATCH_SEED)
    return Mark(arguments.seconds * number / arguments.marks, standing)


def check(file: Path, wanted: Mapping[str, Any]) -> None:
    """Refuse what was kept under another plan.

    Raises:
        SystemExit: It was.
    """
    if not file.exists():
        return
    found = {key: value for key, value in json.loads(file.read_text()).items() if key in wanted}
    if found != wanted:
        raise SystemExit(f"{file} is of {found}, not of {wanted}: ask for that, or give another --out")


def read(folder: Path, name: str, seed: int) -> Race:
    """Return a result that was kept."""
    told = json.loads((folder / f"{name}-{seed}.json").read_text())["race"]
    marks: Sequence[Mark] = [Mark(mark["seconds"], Standing(**mark["standing"])) for mark in told["marks"]]
    return Race(marks, told["steps"], told["resets"])


def load(arguments: argparse.Namespace, file: Path) -> Policy:
    """Return the policy of a checkpoint of this game."""
    return resolve_policy(arguments.game, str(file))


def checkpoint(folder: Path, name: str) -> Path:
    """Return where a player's weights are kept."""
    return folder / f"{name}{CHECKPOINT_SUFFIX}"


def mark_file(work: Path, number: int) -> Path:
    """Return where the weights of a mark are kept."""
    return checkpoint(work, f"mark-{number}")


def keep(weights: Path, file: Path) -> None:
    """Copy weights, all or nothing."""
    unfinished = file.with_suffix(".part")
    shutil.copyfile(weights, unfinished)
    unfinished.replace(file)


def write(file: Path, content: Mapping[str, Any]) -> None:
    """Write JSON, all or nothing."""
    unfinished = file.with_suffix(".part")
    unfinished.write_text(json.dumps(content, indent=1))
    unfinished.replace(file)


def size(file: Path) -> int:
    """Return a file's bytes, 0 where there is none."""
    return file.stat().st_size if file.exists() else 0


def say(text: str) -> None:
    """Tell how far it is."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
