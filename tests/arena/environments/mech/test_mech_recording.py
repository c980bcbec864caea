"""Recordings of real matches of mechs."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from mech_play import RandomOrders, brawl, idle
from refused import refused

from arena.environments import make
from arena.environments.base import Actions
from arena.environments.mech.config.constants import DECISION_S, SMOKE_DECISIONS, SMOKE_SLOTS
from arena.environments.mech.env import MechEnvironment
from arena.environments.mech.maps.pool import build_pool
from arena.environments.mech.observation_spec import CONDITION_FEATURES
from arena.play.recording import RecordFirstMatch, record_match
from arena.play.series import play_series, resolve_policy
from arena.replay import MechRecording, read_recording, write_recording
from arena.replay.mech.battlefield import Battlefield
from arena.replay.mech.events import End, Intercept, Kill, Launch, Paint, StatusChange, ZoneChange
from arena.replay.mech.frames import Flag
from arena.replay.render.stats import count_up

MOST_BYTES = 150_000


def film(
    env: MechEnvironment, give: Callable[[], Actions], row: int = 0, prepare: Callable[[], None] = lambda: None
) -> MechRecording:
    """Record what a row plays from its reset to its end."""
    observation = env.reset()
    prepare()
    recorder, ended = record_match(env, observation, row), False
    while not ended:
        actions = give()
        step = env.step(actions)
        recorder.stepped(actions, step)
        ended = bool((step.terminated | step.truncated)[row])
    return recorder.finish(("home", "away"))


@pytest.fixture(scope="module")
def company() -> MechRecording:
    """A whole match of 20 mechs, close together, that do anything."""
    env = make("mech-company", num_envs=1, seed=3)
    orders = RandomOrders(env.spec, [1], pulls=(0.6, 0.3, 0.6, 0.6, 0.3))
    return film(env, orders.draw, prepare=lambda: brawl(env, 0.3))


def test_last_frame_is_the_end_and_not_the_next_match(
    duel: Callable[..., MechEnvironment], orders: Callable[..., Actions]
):
    env = duel([(-2.0, 0.0), (2.0, 0.0)], [(1.0, 0.0), (-1.0, 0.0)], hp=(150.0, 5.0))
    recorder = record_match(env, None, 0)
    actions = orders(home=("primary", "tertiary"))
    for _ in range(20):
        step = env.step(actions)
        recorder.stepped(actions, step)
        if bool(step.terminated[0]):
            break
    recording = recorder.finish(("a", "b"))

    outcome = recording.header.outcome
    assert (outcome.score, outcome.reason) == (1.0, "elimination")
    assert len(recording.frames) == outcome.decisions + 1
    assert recording.frames.hp[-1].tolist() == [100, 0]
    assert recording.frames.x[-1].tolist() == [-200, 200]
    assert int(recording.frames.has(Flag.ALIVE)[-1, 1]) == 0
    assert recording.events[-1] == End("end", outcome.decisions)
    assert env.arrays["hp"][0].tolist() == [150.0, 150.0]


def test_kill_is_an_event_with_its_killer(duel: Callable[..., MechEnvironment], orders: Callable[..., Actions]):
    env = duel([(-2.0, 0.0), (2.0, 0.0)], [(1.0, 0.0), (-1.0, 0.0)], hp=(5.0, 150.0))
    recorder = record_match(env, None, 0)
    actions = orders(away=("primary",))
    step = env.step(actions)
    recorder.stepped(actions, step)
    recording = recorder.finish(("a", "b"))

    assert [event for event in recording.events if isinstance(event, Kill)] == [Kill("kill", 1, 0, 1, ())]
    laser = recording.weapons.index("laser")
    assert [recording.beams.shooter.tolist(), recording.beams.weapon.tolist(), recording.beams.target.tolist()] == [
        [1],
        [laser],
        [0],
    ]
    assert (recording.hits.shooter.tolist(), recording.hits.damage.tolist()) == ([1], [50])


def test_mishaps_are_events_when_they_begin(duel: Callable[..., MechEnvironment], orders: Callable[..., Actions]):
    hot_and_shaky = {"stability": (100.0, 1.0), "heat": (99.0, 0.0)}
    env = duel([(-3.0, 0.0), (3.0, 0.0)], [(1.0, 0.0), (-1.0, 0.0)], **hot_and_shaky)
    recorder = record_match(env, None, 0)
    for home in (("tertiary",), ("tertiary",), ()):
        actions = orders(home=home)
        env.arrays["hp"][0, 1] *= bool(home)
        recorder.stepped(actions, env.step(actions))
    mishaps = [event for event in recorder.finish(("a", "b")).events if isinstance(event, StatusChange)]

    assert mishaps == [StatusChange("shutdown", 1, 0), StatusChange("fall", 1, 1)]


def test_whole_company_of_random_mechs_takes_less_than_it_may(company: MechRecording, tmp_path: Path):
    recording = company

    size = write_recording(tmp_path / "company", recording)

    assert size < MOST_BYTES * max(0.2, recording.header.outcome.decisions / 500)
    assert write_recording(tmp_path / "again", read_recording(tmp_path / "company")) == size


def test_everything_that_happens_is_recorded(company: MechRecording):
    recording = company

    kinds = {type(event) for event in recording.events}
    mishaps = {event.kind for event in recording.events if isinstance(event, StatusChange)}
    launches = {event.kind for event in recording.events if isinstance(event, Launch)}
    assert kinds >= {Kill, StatusChange, Paint, Launch, ZoneChange, End}
    assert kinds - {Intercept} <= {Kill, StatusChange, Paint, Launch, ZoneChange, End}
    assert "shutdown" in mishaps
    assert launches == {"missile", "smoke"}
    assert len(recording.smoke.frame) > 0 < len(recording.shells.frame)
    assert set(recording.shells.weapon.tolist()) <= {
        recording.weapons.index(n) for n in ("missile", "gauss", "autocannon")
    }


def test_recorded_actions_are_limited_to_capable_mechs(company: MechRecording):
    recording = company
    roles, side = recording.header.roles, recording.header.side

    for event in recording.events:
        if isinstance(event, Launch) and event.kind == "missile":
            assert roles[event.mech] == "heavy"
        elif isinstance(event, Paint):
            assert roles[event.by] != "heavy"
            assert side(event.by) != side(event.mech)
        elif isinstance(event, Intercept):
            assert roles[event.mech] == "heavy"
        elif isinstance(event, Kill):
            assert event.by not in event.assists
            assert recording.frames.hp[event.at, event.mech] == 0 < recording.frames.hp[event.at - 1, event.mech]


def test_hits_add_up_to_the_hit_points_that_were_lost(company: MechRecording):
    recording = company
    full = np.array([recording.hulls[role].hp for role in recording.header.roles])

    lost = full * (1.0 - recording.frames.hp[-1] / 100.0)
    taken = count_up(recording, len(recording.frames) - 1).taken / 10.0

    np.testing.assert_allclose(taken, lost, atol=2.1)
    dead = recording.frames.hp[-1] == 0
    assert dead.any()
    np.testing.assert_allclose(taken[dead], full[dead], atol=1.0)


def test_zone_seconds_are_the_sum_of_the_ticks(company: MechRecording):
    frames = company.frames

    for ticks, seconds in ((frames.home_tick, frames.home_zone), (frames.away_tick, frames.away_zone)):
        np.testing.assert_allclose(np.cumsum(ticks[1:]) * DECISION_S, seconds[1:], atol=0.2 * len(frames))
        assert seconds[0] == 0


def test_smoke_hangs_where_and_as_long_as_it_does(company: MechRecording):
    recording = company
    launched = Counter(
        (event.at, recording.header.side(event.mech))
        for event in recording.events
        if isinstance(event, Launch) and event.kind == "smoke"
    )

    hung = Counter(zip(recording.smoke.frame.tolist(), recording.smoke.side.tolist(), strict=True))
    assert hung == {key: min(count, SMOKE_SLOTS) for key, count in launched.items()}
    assert ((recording.smoke.last - recording.smoke.frame) < SMOKE_DECISIONS).all()


def test_recorded_flags_equal_the_perception_of_the_mechs():
    env = make("mech-pack", num_envs=1, seed=5)
    recorder = record_match(env, env.reset(), 0)
    brawl(env, 0.4)
    orders, seen = RandomOrders(env.spec, [2]), []
    for _ in range(env.spec.max_decisions):
        actions = orders.draw()
        step = env.step(actions)
        recorder.stepped(actions, step)
        seen.append(step.final_observation.values[0, :, env.spec.layout["condition"]].numpy())
        if bool((step.terminated | step.truncated)[0]):
            break
    recording = recorder.finish(("a", "b"))

    perceived = np.stack(seen)
    alive = recording.frames.has(Flag.ALIVE)[1:] > 0
    names = {
        Flag.SHUTDOWN: "shutdown",
        Flag.FALLEN: "fallen",
        Flag.LEGGED: "legged",
        Flag.PAINTED: "painted",
        Flag.SUPPRESSED: "suppressed",
        Flag.IN_ZONE: "in_zone",
        Flag.ECM: "ecm",
        Flag.ECCM: "eccm",
    }
    for flag, name in names.items():
        told = perceived[..., CONDITION_FEATURES.index(name)] > 0.5
        np.testing.assert_array_equal(recording.frames.has(flag)[1:][alive] > 0, told[alive], name)
    assert recording.frames.has(Flag.IN_ZONE).any()


def test_recording_changes_no_match():
    lieutenant = resolve_policy("mech-pack", "lieutenant")
    watcher = RecordFirstMatch()

    alone = play_series("mech-pack", lieutenant, lieutenant, matches=6, seed=2)
    watched = play_series("mech-pack", lieutenant, lieutenant, matches=6, seed=2, watcher=watcher)

    assert watched == alone
    recording = watcher.finish(("a", "b"))
    first = watched.matches[0]
    assert (recording.header.outcome.score, recording.header.outcome.reason) == (first.score, first.reason)
    assert (recording.header.outcome.decisions, recording.header.seed) == (first.decisions, first.seed)


def test_match_is_recorded_from_its_start_or_not_at_all():
    env = make("mech-duel", num_envs=1)
    observation = env.reset()
    env.step(idle(env.spec))

    with refused("call-order", 1):
        record_match(env, observation, 0)


def test_recording_of_any_row_equals_the_single_match():
    lone, batch = make("mech-duel", num_envs=1), make("mech-duel", num_envs=3)
    for env in (lone, batch):
        env.next_seeds.fill_(11)
    orders = RandomOrders(lone.spec, [4])
    script = [orders.draw() for _ in range(lone.spec.max_decisions)]

    alone = film(lone, iter(script).__next__)
    among = film(
        batch, ({n: a.expand(3, *a.shape[1:]) for n, a in actions.items()} for actions in script).__next__, row=2
    )

    for name in ("x", "hp", "flags"):
        np.testing.assert_array_equal(getattr(alone.frames, name), getattr(among.frames, name))
    assert alone.events == among.events
    assert alone.header.seed == among.header.seed == 11


def test_recorder_listens_to_one_match_only():
    env = make("mech-duel", num_envs=1)

    recording = film(env, lambda: idle(env.spec))

    assert recording.header.outcome.reason == "time"
    assert env.on_decided == []
    env.step(idle(env.spec))
    assert len(recording.frames) == 241


def test_recorders_of_several_rows_end_in_any_order():
    env = make("mech-duel", num_envs=2)
    observation = env.reset()
    first, second = (record_match(env, observation, row) for row in range(2))
    env.arrays["decision"][0] += 200
    for _ in range(env.spec.max_decisions + 1):
        step = env.step(idle(env.spec, 2))
        first.stepped({}, step)
        second.stepped({}, step)
    recording = second.finish(("one", "other"))
    assert len(recording.frames) == env.spec.max_decisions + 1
    assert len(first._pictures) == env.spec.max_decisions - 200 + 1


def test_map_of_the_recording_is_the_match_s():
    env = make("mech-pack", num_envs=2, seed=1)
    recorder = record_match(env, env.reset(), 1)
    number = int(env.arrays["map"][1])
    actions = idle(env.spec, 2)
    for _ in range(env.spec.max_decisions):
        recorder.stepped(actions, env.step(actions))
    battlefield: Battlefield = recorder.finish(("a", "b")).battlefield

    pool = build_pool(env.config)
    np.testing.assert_array_equal(battlefield.ground.layer("solid"), pool.solid[number])
    np.testing.assert_array_equal(battlefield.ground.layer("material"), pool.material[number])
    assert battlefield.side == env.config.map_side
    assert torch.equal(env.arrays["ended"], torch.tensor([True, True]))
