import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace

import pytest

from arena.environments import declare
from arena.policies import ActorCritic, Architecture
from arena.policies.checkpoint import NEWEST, save
from benchmarks import strangers
from benchmarks.value import rivalry
from benchmarks.value.meter import Meter, started_s
from benchmarks.value.pace import LEAD_S, Pace
from benchmarks.value.recipes import FIRST_SEED, RECIPES
from benchmarks.value.rivalry import Mark, Race
from benchmarks.value.rivals import Standing, rated, stand
from tests.support.stubborn import Always
from trainer.config.loading import resolve


def save_beginner(file):
    spec = declare("rps")
    save(file, ActorCritic(Architecture.of(spec, recurrent_size=4)), spec)


def race(rating, worst, steps=100):
    marks = [Mark(5.0, Standing(1500.0, 60.0, {"a": 0.5})), Mark(10.0, Standing(rating, 40.0, {"a": 0.9, "b": worst}))]
    return Race(marks, {"main": steps, "finder": 2 * steps}, 3)


def test_strangers_differ_in_seed_and_name_from_each_other_and_in_seed_from_all_runs():
    pool = strangers.strangers(list(RECIPES), 2)
    assert len(pool) == len({each.name for each in pool}) == len({each.seed for each in pool}) == 20
    assert min(each.seed for each in pool) == FIRST_SEED


@pytest.mark.parametrize("stranger", strangers.strangers(list(RECIPES), 1), ids=lambda each: each.recipe)
def test_trainers_know_every_recipe(stranger):
    settings = stranger.condition.trainer_settings(stranger.condition.trainees[0], 1000, stranger.seed)
    config = resolve("mech-duel", None, settings)
    assert (config.run.seed, config.run.total_timesteps) == (stranger.seed, 1000)
    given = [setting.split("=")[0] for setting in settings]
    assert len(given) == len(set(given))


def test_no_two_recipes_are_the_same():
    assert len({frozenset(settings) for settings in RECIPES.values()}) == len(RECIPES)


def test_a_meter_adds_sessions_and_leaves_out_what_loading_took(tmp_path):
    clock = [7.0]
    for before, after in ((0.0, 3.0), (3.0, 6.0)):
        meter = Meter(tmp_path / "seconds", lambda: clock[0])
        assert meter.read() == before
        clock[0] += 5.0
        assert meter.read() == before
        meter.start()
        clock[0] += 3.0
        assert meter.read() == after
        clock[0] = 1.0


@pytest.mark.integration
def test_processor_seconds_are_those_of_processes_that_were_started():
    busy = "import time\nwhile time.process_time() < 0.1: pass\nprint(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        with_child = started_s()
        child.communicate(b"\n")
    assert with_child - started_s() >= 0.05


def state_of(process):
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def wait_until(reached):
    while not reached():
        time.sleep(0.001)


@pytest.mark.integration
def test_who_is_ahead_stops_until_the_leader_has_caught_up_and_goes_on_at_the_end():
    with subprocess.Popen(["sleep", "60"]) as leader, subprocess.Popen(["sleep", "60"]) as follower:
        used = {leader.pid: 5.0, follower.pid: 50.0}
        with Pace(leader.pid, [follower.pid], used.__getitem__) as pace:
            pace.keep()
            wait_until(lambda: state_of(follower) == "S")
            used[follower.pid] += 3.0 + LEAD_S
            pace.keep()
            wait_until(lambda: state_of(follower) == "T")
            used[leader.pid] += 3.0
            pace.keep()
            wait_until(lambda: state_of(follower) == "S")
            used[follower.pid] += 1.0
            pace.keep()
            wait_until(lambda: state_of(follower) == "T")
        wait_until(lambda: state_of(follower) == "S")
        leader.kill()
        follower.kill()


DYING = """
import sys
from pathlib import Path
from benchmarks.value import tethered
child = tethered.start(["-c", "import time; print(flush=True); time.sleep(60)"], {}, Path(sys.argv[1]))
print(child.pid, flush=True)
input()
"""


@pytest.mark.integration
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's signal at a parent's death is Linux's")
def test_no_trainer_outlives_who_started_it_and_was_killed_not_even_one_that_was_held(tmp_path):
    log, root = tmp_path / "log", Path(__file__).parents[2]
    command = [sys.executable, "-c", DYING, str(log)]
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        trainer = SimpleNamespace(pid=int(parent.stdout.readline()))
        wait_until(lambda: log.read_text())
        os.kill(trainer.pid, signal.SIGSTOP)
        wait_until(lambda: state_of(trainer) == "T")
        parent.kill()
    wait_until(lambda: not Path(f"/proc/{trainer.pid}").exists() or state_of(trainer) == "Z")


def test_the_wall_clock_counts_the_mains_trainer_and_the_other_one_everything_that_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(strangers, "started_s", lambda: 9.0)
    monkeypatch.setattr(strangers, "seconds_of", lambda processes: 3.0 if processes == {11} else None)
    run = SimpleNamespace(processes={"main": 11, "main-exploiter": 12})
    assert strangers.used_s(arguments(tmp_path, "--clock", "wall"), run) == 3.0
    assert strangers.used_s(arguments(tmp_path, "--clock", "processor"), run) == 9.0


def test_the_stronger_stands_higher_and_strangers_keep_their_ratings():
    pool = rated("rps", {"rock": Always(0), "scissors": Always(2)}, matches=4, seed=1)
    assert pool.ratings.rating[0] > pool.ratings.rating[1]
    rock, paper = (stand(pool, Always(choice), matches=4, seed=2) for choice in (0, 1))
    assert paper.worst == paper.scores["scissors"] < 0.5 < paper.scores["rock"]
    assert rock.worst == rock.scores["rock"] == 0.5
    assert rock.mean == pytest.approx((0.5 + rock.scores["scissors"]) / 2.0)
    assert rock.rating > paper.rating
    assert 0.0 < rock.deviation < 350.0


def test_tables_tell_means_intervals_and_leads():
    races = {"league": [race(1600.0, 0.6), race(1700.0, 0.5)], "self-play": [race(1500.0, 0.4), race(1550.0, 0.4)]}
    rows = rivalry.table(races).splitlines()
    assert rows[2].startswith("| league | 2 | 1650 (1015 to 2285) | 0.550 (-0.085 to 1.185) |")
    assert rows[2].endswith("| 100 | 300 | 3.0 |")
    assert rows[4].startswith("| league above self-play | 2 | +125 (-193 to +443) | +0.150 (-0.485 to +0.785) |")
    told = rivalry.summary(races)
    assert told["league above self-play"]["worst win rate"]["mean"] == pytest.approx(0.15)
    assert rivalry.summary({"league": [race(1600.0, 0.6)]})["league"]["rating"] == {
        "mean": 1600.0,
        "low": None,
        "high": None,
    }


def test_curves_have_a_line_for_every_run_and_mean_in_both_panels():
    races = {"league": [race(1600.0, 0.6), race(1700.0, 0.5)], "self-play": [race(1500.0, 0.4)]}
    root = ET.fromstring(rivalry.curves("duel", "seconds", races))
    assert len(list(root.iter("{http://www.w3.org/2000/svg}polyline"))) == 2 * (2 + 1 + 1 + 1)


def arguments(tmp_path, *words):
    size = ("--game", "rps", "--seconds", "10", "--marks", "2", "--matches", "4", "--pool-matches", "2")
    return strangers.parse([*size, "--recipes", "plain", "--out", str(tmp_path), *words])


class Run:
    """A run whose trainer makes an update and uses a processor second whenever somebody looks."""

    def __init__(self, folder):
        self.folder, self.used_s, self.sessions = folder, 0.0, 0
        self.processes = {"main": os.getpid()}
        self.condition = SimpleNamespace(trainees=[SimpleNamespace(name="main")])
        listed = [SimpleNamespace(name="main", step=50, resets=1)]
        self.client = SimpleNamespace(learners=lambda _game: SimpleNamespace(items=listed))

    def run_folder(self, learner):
        return self.folder / learner

    def start(self):
        self.sessions += 1
        self.run_folder("main").mkdir(parents=True, exist_ok=True)

    def finished(self):
        self.used_s += 1.0
        with (self.run_folder("main") / strangers.METRICS).open("a") as metrics:
            metrics.write("{}\n")
        save_beginner(self.run_folder("main") / NEWEST)
        return False

    def stop(self):
        pass


def test_settings_of_a_leagues_main_are_not_those_of_self_play_nor_of_exploiters(tmp_path):
    words = ("--set", "ppo.update_epochs=3", "--set-main", "role.past_below=0.6", "--set-exploiters", "role.start=main")
    found = {}
    for condition in ("league", "self-play"):
        run = strangers.training(arguments(tmp_path, *words), tmp_path, condition, 3)
        found |= {(condition, each.role): run._settings(each) for each in run.condition.trainees}
    assert all({"ppo.update_epochs=3", "run.seed=3"} <= {*settings} for settings in found.values())
    assert [key for key, settings in found.items() if "role.past_below=0.6" in settings] == [("league", "main")]
    exploiters = [("league", "main_exploiter"), ("league", "league_exploiter")]
    assert [key for key, settings in found.items() if "role.start=main" in settings] == exploiters


@pytest.fixture
def run(tmp_path, monkeypatch):
    run = Run(tmp_path / "league-0")
    monkeypatch.setattr(strangers, "POLL_S", 0.0)
    monkeypatch.setattr(strangers, "training", lambda *_: run)
    monkeypatch.setattr(strangers, "Meter", lambda file, _used_s: Meter(file, lambda: run.used_s))
    return run


def test_a_run_is_trained_for_its_time_valued_at_its_marks_and_kept(run, tmp_path):
    asked = arguments(tmp_path)
    pool = rated("rps", {"rock": Always(0), "paper": Always(1)}, matches=2, seed=0)
    strangers.race(asked, tmp_path, pool, "league", 0)
    told = strangers.read(tmp_path, "league", 0)
    assert [mark.seconds for mark in told.marks] == [5.0, 10.0]
    assert (told.steps, told.resets, run.sessions) == ({"main": 50}, 1, 1)
    assert not run.folder.exists()
    strangers.race(asked, tmp_path, pool, "league", 0)
    assert run.sessions == 1
    for other in (("--seconds", "20"), ("--clock", "processor")):
        with pytest.raises(SystemExit, match="give another --out"):
            strangers.race(arguments(tmp_path, *other), tmp_path, pool, "league", 0)


def test_an_interrupted_run_goes_on_with_the_time_that_it_has_left(run, tmp_path):
    run.folder.mkdir()
    (run.folder / "seconds").write_text("9.0")
    for _ in range(2):
        strangers.run_for(arguments(tmp_path), run, "league")
        assert 0.0 < run.used_s < 5.0
        assert run.sessions == 1


def test_nobody_waits_for_trainers_that_have_ended(run, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "finished", lambda: True)
    with pytest.raises(SystemExit, match="ended before their time"):
        strangers.run_for(arguments(tmp_path), run, "league")


def test_strangers_are_trained_once(tmp_path, monkeypatch):
    asked, trained = arguments(tmp_path), []

    def train(_asked, folder, stranger):
        trained.append(stranger.name)
        save_beginner(strangers.checkpoint(folder, stranger.name))

    monkeypatch.setattr(strangers, "train_stranger", train)
    first, again = (strangers.gather(asked, tmp_path / "pool") for _ in range(2))
    assert trained == ["plain-0", "plain-1"]
    assert json.loads((tmp_path / "pool/ratings.json").read_text())["rating"] == again.ratings.rating.tolist()
    assert list(first.players) == list(again.players) == trained
    with pytest.raises(SystemExit, match="give another --out"):
        strangers.gather(arguments(tmp_path, "--stranger-steps", "9"), tmp_path / "pool")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--game", "chess"], "chess"),
        (["--seeds", "1001"], "--seeds 1001: at most 1000"),
        (["--seconds", "0"], "0 is too few: give 1 or more"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_runs(words, message, capsys):
    with pytest.raises(SystemExit):
        strangers.parse(words)
    assert message in capsys.readouterr().err
