import math
from dataclasses import replace

import pytest
import torch
from refused import refused
from stubborn import Always

from arena.environments import declare, make
from arena.environments.base import Measure, Observation, Outcome, StepResult
from arena.environments.metrics import MOST_MEASURES, ActionFrequencies, RatioAccumulator, meter_of
from arena.environments.registry import make_baseline
from arena.environments.spec import ActionHead, HeadKind
from arena.play.behaviour import BehaviourCallback
from arena.play.recording import RecordFirstMatch
from arena.play.runner import CallbackList, play

ROCK, PAPER = 0, 1


def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def observation(active, masks=None) -> Observation:
    active = torch.tensor(active)
    masks = {name: torch.tensor(mask) for name, mask in (masks or {}).items()}
    return Observation(values=torch.zeros(*active.shape, 1), masks=masks, active=active)


def step(seen: Observation, ended) -> StepResult:
    ended = torch.tensor(ended)
    nothing = torch.zeros(len(ended), dtype=torch.int64)
    return StepResult(
        observation=seen,
        reward=torch.zeros(seen.active.shape),
        terminated=ended,
        truncated=torch.zeros_like(ended),
        final_observation=seen,
        outcome=Outcome(score=nothing.double(), reason=nothing, decisions=nothing),
    )


class Toy:
    """Two agents a side and whatever heads; only what a meter reads."""

    def __init__(self, heads, num_envs=1) -> None:
        roles = ("player",) * 4
        self.spec = replace(declare("rps"), agents_per_side=(2, 2), roles=roles, heads=tuple(heads))
        self.num_envs, self.device = num_envs, torch.device("cpu")


def test_ratios_use_sums_over_one_match():
    ratios = RatioAccumulator(declare("rps"), 2, 1, torch.device("cpu"))
    none, both, second = (torch.tensor(each) for each in ([False, False], [True, True], [False, True]))
    ratios.add(torch.tensor([[[1.0], [0.0]], [[2.0], [0.0]]]), torch.tensor([[[1.0], [0.0]], [[4.0], [1.0]]]))
    assert ratios.take(none).isnan().all()
    ratios.add(torch.tensor([[[0.0], [3.0]], [[1.0], [1.0]]]), torch.tensor([[[3.0], [3.0]], [[4.0], [1.0]]]))
    of_second = ratios.take(second)
    assert of_second[0].isnan().all()
    assert of_second[1].tolist() == [[3 / 8], [1 / 2]]
    rest = ratios.take(both)
    assert rest[0].tolist() == [[1 / 4], [1.0]]
    assert rest[1].isnan().all(), "what the last match was is not the next one's"


def test_actions_are_measured_where_they_may_be_taken():
    heads = [
        ActionHead("go", HeadKind.GAUSSIAN, 1, masked=False),
        ActionHead("fire", HeadKind.BERNOULLI, 2, masked=True),
        ActionHead("aim", HeadKind.CATEGORICAL, 2, masked=True),
    ]
    meter = ActionFrequencies(Toy(heads))
    ranges = [(each.name, each.low, each.high) for each in meter.measures]
    assert ranges[0] == ("go/0", -1.0, 1.0)
    assert ranges[1:] == [(name, 0.0, 1.0) for name in ("fire/0", "fire/1", "aim/0", "aim/1")]
    fire = [[[True, False], [True, False], [True, False], [False, False]]]
    aim = [[[True, True], [False, True], [True, True], [True, True]]]
    meter.opened(observation([[True, True, True, False]], {"fire": fire, "aim": aim}))
    actions = {
        "go": torch.tensor([[[0.5], [-1.0], [0.25], [1.0]]]),
        "fire": torch.tensor([[[True, True], [False, True], [True, True], [True, True]]]),
        "aim": torch.tensor([[1, 1, 0, 0]]),
    }
    home, away = meter.stepped(actions, step(observation([[False] * 4]), [True]))[0].tolist()
    assert home[0] == pytest.approx(-0.25)
    assert home[1] == 0.5
    assert math.isnan(home[2]), "a switch that may never be on says nothing"
    assert home[3:] == [0.0, 1.0], "the second option alone was open to both"
    assert away[0] == 0.25
    assert away[3:] == [1.0, 0.0]


def test_heads_with_more_options_than_there_is_room_for_are_left_out():
    few, many = (ActionHead(name, HeadKind.CATEGORICAL, size, False) for name, size in (("few", 2), ("many", 64)))
    assert MOST_MEASURES < 66
    assert [each.name for each in ActionFrequencies(Toy([many, few])).measures] == [f"many/{k}" for k in range(64)]
    assert [each.name for each in ActionFrequencies(Toy([few, many])).measures] == ["few/0", "few/1"]
    nothing = ActionFrequencies(Toy([replace(many, size=65)]))
    assert nothing.measures == ()
    nothing.opened(observation([[True] * 4]))
    actions = {"many": torch.zeros(1, 4, dtype=torch.int64)}
    assert nothing.stepped(actions, step(observation([[True] * 4]), [True])).shape == (1, 2, 0)


class Measured(Toy):
    """Has measures of its own; plays nothing."""

    seeds = next_seeds = torch.zeros(1, dtype=torch.int64)

    def __init__(self, *names: str) -> None:
        super().__init__([])
        self.measures = tuple(Measure(name, 0.0, 1.0) for name in names)

    def reset(self, seeds=None):
        raise NotImplementedError  # only its measures are read

    def step(self, actions):
        raise NotImplementedError  # only its measures are read

    def measure(self):
        return self

    def opened(self, seen):
        pass

    def stepped(self, actions, step):
        raise NotImplementedError  # only its measures are read


def test_an_environment_that_measures_is_asked():
    env = Measured("style")
    assert meter_of(env) is env
    assert isinstance(meter_of(make("rps", num_envs=1)), ActionFrequencies)


@pytest.mark.parametrize(
    ("names", "values"),
    [(("style", "style"), ("rps", 2, 1)), ([str(k) for k in range(65)], (64,))],
)
def test_duplicate_or_too_many_measures_are_rejected(names, values):
    with refused("invalid-game", *values):
        BehaviourCallback(1).opened(Measured(*names), observation([[True] * 4]))


@pytest.mark.parametrize("max_envs", [1, 3, 256])
def test_every_match_has_its_behaviour_in_the_order_of_the_results(max_envs: int):
    seeds = [7, 3, 11, 5, 2]
    random = make_baseline("recall", "random")
    alone = {}
    for seed in seeds:
        watcher = BehaviourCallback(1)
        play("recall", Steady(), random, [seed], rng(), watcher=watcher)
        (alone[seed],) = watcher.behaviours
    watcher = BehaviourCallback(len(seeds))
    play("recall", Steady(), random, seeds, rng(), max_envs=max_envs, watcher=watcher)
    assert [each.home for each in watcher.behaviours] == [alone[seed].home for seed in seeds]
    assert len({alone[seed].home for seed in seeds}) > 1, "equal behaviours show no order"


class Steady:
    """Answers recall with the noise that it is shown: its chance is the match's, whatever the batch."""

    def initial_state(self, rows):
        return ()

    def act(self, seen, state, episode_start, generator):
        noise = seen.values[:, -1].long()
        return {"answer": torch.where(seen.masks["answer"][:, 0], 0, 1 + noise)}, state


def test_sides_have_separate_measures():
    watcher = BehaviourCallback(2)
    play("rps", Always(ROCK), Always(PAPER), [1, 2], rng(), watcher=watcher)
    for each in watcher.behaviours:
        assert each.measures == ("choice/0", "choice/1", "choice/2")
        assert each.home == (1.0, 0.0, 0.0)
        assert each.away == (0.0, 1.0, 0.0)


def test_ratio_with_zero_denominator_is_nan():
    watcher = BehaviourCallback(1)
    play(
        "mech-duel",
        make_baseline("mech-duel", "turret"),
        make_baseline("mech-duel", "turret"),
        [1],
        rng(),
        watcher=watcher,
    )
    (each,) = watcher.behaviours
    known = dict(zip(each.measures, each.home, strict=True))
    assert known["damage_per_s"] == 0.0
    assert known["engagement_range_m"] is None


def test_watching_changes_nothing():
    random = make_baseline("recall", "random")
    seeds = list(range(7))
    unseen = play("recall", random, random, seeds, rng(), max_envs=3)
    assert play("recall", random, random, seeds, rng(), max_envs=3, watcher=BehaviourCallback(7)) == unseen


def test_behaviour_is_measured_beside_a_recording_as_without_one():
    turret, lieutenant = (make_baseline("mech-duel", name) for name in ("turret", "lieutenant"))
    alone, beside, film = BehaviourCallback(2), BehaviourCallback(2), RecordFirstMatch()
    for watcher in (alone, CallbackList(beside, film)):
        results = play("mech-duel", turret, lieutenant, [1, 2], rng(), max_envs=1, watcher=watcher)
    assert beside.behaviours == alone.behaviours
    outcome = film.finish(("turret", "lieutenant")).header.outcome
    assert (outcome.score, outcome.reason, outcome.decisions) == (
        results[0].score,
        results[0].reason,
        results[0].decisions,
    )


def test_a_match_of_several_rounds_has_one_behaviour():
    watcher = BehaviourCallback(3)
    random = make_baseline("rps", "random")
    play("rps:rounds=4", random, Always(PAPER), [1, 2, 3], rng(), max_envs=2, watcher=watcher)
    for each in watcher.behaviours:
        assert each.away == (0.0, 1.0, 0.0)
        assert sum(share or 0.0 for share in each.home) == pytest.approx(1.0)
        assert all((share or 0.0) * 4 == round((share or 0.0) * 4) for share in each.home), "quarters of four rounds"
    assert any(share not in (0.0, 1.0) for each in watcher.behaviours for share in each.home)
