"""Games of tensors are played as they are, whoever opens their matches."""

from types import ModuleType, SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text
from refused import refused
from torch import Tensor

from arena.environments import ImageBlock, MemberMask, declare, make
from arena.environments.adapters.vector import Autoreset, ReturnMargin, TensorGame
from arena.environments.base import StepResult
from arena.play.series import play_series, resolve_policy

E = 3


class Count:
    """Matches of `2 + seed % 3` decisions, whose observation says seed and decision, and whose actions are kept.

    It ends by the game where the seed is even, else by a limit. Both sides are paid what they choose.
    """

    observation_space = Box(0.0, 1000.0, (2,))
    action_space: object = Discrete(3, start=1)
    metadata: ClassVar[dict[str, object]] = {}

    def __init__(self, num_envs: int) -> None:
        self.seed, self.time = np.zeros(num_envs, np.int64), np.zeros(num_envs, np.int64)
        self.taken: list[np.ndarray] = []

    def reset(self, seed, options=None):
        rows = np.ones(len(self.seed), bool) if options is None else options["reset_mask"]
        assert isinstance(seed, np.ndarray)
        self.seed[rows], self.time[rows] = seed[rows], 0
        return self.see(), self.info()

    def step(self, actions):
        self.taken.append(actions)
        self.time += 1
        over = self.time >= 2 + self.seed % 3
        rewards = actions.reshape(len(actions), 2, -1).sum(-1).astype(float)
        return self.see(), rewards, over & (self.seed % 2 == 0), over & (self.seed % 2 == 1), self.info()

    def see(self):
        return np.stack([self.seed, self.time], -1)[:, None].repeat(2, 1)

    def info(self):
        return {}


class OpensItself(Count):
    """Count that opens its own matches, each with the next seed, in the same or in the next step."""

    def __init__(self, num_envs: int, mode: str) -> None:
        super().__init__(num_envs)
        self.metadata, self.over = {"autoreset_mode": SimpleNamespace(value=mode)}, np.zeros(num_envs, bool)
        self.same = mode == "SameStep"

    def reset(self, seed, options=None):
        assert isinstance(seed, int)
        self.over[:] = False
        return super().reset(np.arange(len(self.seed)))

    def step(self, actions):
        waiting = self.over.copy()
        seen, rewards, terminated, truncated, info = super().step(actions)
        self._open(waiting)
        rewards, terminated, truncated = rewards * ~waiting[:, None], terminated & ~waiting, truncated & ~waiting
        self.over = terminated | truncated
        if self.same:
            info, waiting = {"final_obs": seen}, self.over
            self._open(self.over)
            self.over = np.zeros_like(self.over)
        return self.see(), rewards, terminated, truncated, info

    def _open(self, rows):
        self.seed[rows], self.time[rows] = self.seed[rows] + 1, 0


class Turns(Count):
    """Count in which sides take turns, and the score is told."""

    observation_space = Dict({"facts": Box(0.0, 1000.0, (2,)), "action_mask": MultiBinary(3)})

    def see(self):
        mask = np.zeros((len(self.seed), 2, 3), np.int8)
        mask[np.arange(len(self.seed)), self.time % 2] = [1, 0, 1]
        return {"facts": super().see(), "action_mask": mask}

    def info(self):
        return {"score": np.full(len(self.seed), 0.75)}


games = ModuleType("tensor_games_of_tests")


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, games.__name__, games)


def named(**found: object) -> str:
    """The name of a game, which has to be another for every test: what is declared is kept."""
    ((name, game),) = found.items()
    setattr(games, name, game)
    return f"{games.__name__}:{name}"


def choose(env, number: int) -> dict[str, Tensor]:
    return {"action": torch.full((env.num_envs, env.spec.num_agents), number)}


def test_a_callable_with_num_envs_is_declared_by_its_spaces():
    spec = declare(named(count=Count))
    assert [(block.name, block.shape, block.high) for block in spec.observation] == [
        ("observation", (2,), 1000.0),
        ("away", (1,), 1.0),
    ]
    assert (spec.agents_per_side, spec.turn_based, spec.reproducible) == ((1, 1), False, True)
    assert [(head.name, head.size, head.masked) for head in spec.heads] == [("action", 3, False)]


def test_matches_are_opened_by_their_seeds_and_ends_are_shown():
    env = make(named(asked=Count), num_envs=E, seed=3)
    first = env.reset(torch.tensor([4, 5, 6]))  # of three, four and two decisions
    assert first.values[:, 0].tolist() == [[4, 0, 0], [5, 0, 0], [6, 0, 0]]
    assert first.values[:, 1, 2].tolist() == [1.0] * E, "away"
    env.next_seeds.copy_(torch.tensor([40, 50, 60]))
    steps = [env.step(choose(env, 1)) for _ in range(4)]
    assert [step.terminated.tolist() for step in steps] == [
        [False] * 3, [False, False, True], [True, False, False], [False, False, True],
    ]  # fmt: skip
    assert [step.truncated.tolist() for step in steps] == [[False] * 3] * 3 + [[False, True, False]]
    assert steps[1].observation.values[2, 0].tolist() == [60.0, 0.0, 0.0]
    assert steps[1].final_observation.values[2, 0].tolist() == [6.0, 2.0, 0.0]
    assert not steps[1].final_observation.active[2].any(), "it is over"
    assert steps[3].final_observation.active[1].all(), "it would have gone on"
    assert steps[3].outcome.decisions.tolist()[1] == 4
    assert env._game.taken[0].tolist() == [[2, 2]] * E, "choices begin at 1"
    assert all(step.reward.tolist() == [[2.0, 2.0]] * E for step in steps)


def ends_of(env, steps: int) -> list[tuple[int, int, int, bool]]:
    """Of every match its row, its seed, its length and whether it was cut off, as they are told."""
    env.reset()
    told: list[tuple[int, int, int, bool]] = []
    for _ in range(steps):
        step: StepResult = env.step(choose(env, 0))
        told += [
            (row, int(step.final_observation.values[row, 0, 0]) if bool(step.truncated[row]) else -1,
             int(step.outcome.decisions[row]), bool(step.truncated[row]))
            for row in step.ended.nonzero().flatten().tolist()
        ]  # fmt: skip
    return told


def test_autoreset_modes_give_the_same_matches():
    envs = {
        mode: make(named(**{mode: lambda num_envs, mode=mode: OpensItself(num_envs, mode)}), num_envs=E)
        for mode in ("SameStep", "NextStep")
    }
    same, late = (ends_of(env, steps) for env, steps in zip(envs.values(), (12, 24), strict=True))
    assert len(same) >= 3 * E
    for row in range(E):
        one, other = ([end for end in told if end[0] == row] for told in (same, late))
        assert one == other[: len(one)]
    assert [env.spec.turn_based for env in envs.values()] == [False, True]
    assert not any(env.spec.reproducible for env in envs.values())


def test_no_agent_acts_in_the_autoreset_step():
    env = make(named(late=lambda num_envs: OpensItself(num_envs, "NextStep")), num_envs=1)
    env.reset()
    first, second = env.step(choose(env, 0)), env.step(choose(env, 2))
    assert first.observation.active.all()
    assert second.reward.tolist() == [[3.0, 3.0]], "seed 0 has two decisions"
    assert not second.ended.any()
    assert not second.observation.active.any()
    assert not second.observation.values.any()
    third = env.step({"action": torch.full((1, 2), 99)})
    assert third.terminated.all()
    assert not third.reward.any()
    assert third.observation.values[0, 0].tolist() == [1.0, 0.0, 0.0]
    assert third.outcome.decisions.tolist() == [2]


def test_masks_turns_and_scores_are_the_games():
    env = make(named(turns=TensorGame(Turns, turn_based=True)), num_envs=2)
    seen = env.reset(torch.tensor([3, 5]))  # two and four decisions, cut off
    assert seen.active.tolist() == [[True, False]] * 2
    assert seen.masks["action"].tolist() == [[[True, False, True], [False] * 3]] * 2
    assert not seen.values[:, 1].any()
    with refused("invalid-action", 0, 1, "action", 2):
        env.step(choose(env, 1))
    env.step(choose(env, 2))
    step = env.step({"action": torch.tensor([[99, 0], [99, 0]])})
    assert step.truncated.tolist() == [True, False]
    assert step.final_observation.active[0].all(), "also who waits for its turn"
    assert step.outcome.score.tolist() == [0.75, 0.5]
    assert env._game.taken[1].tolist() == [[1, 1]] * 2


@pytest.mark.parametrize(
    ("space", "kind", "given"),
    [
        (MultiDiscrete([2, 3], start=[0, 5]), "categorical", [1, 7]),
        (MultiBinary(2), "bernoulli", [1, 1]),
        (Box(np.array([0.0, -2.0], np.float32), np.array([10.0, 2.0], np.float32)), "gaussian", [10.0, 2.0]),
    ],
)
def test_choices_of_every_kind_reach_the_game(space, kind: str, given: list[float]):
    env = make(named(**{kind: type("Kind", (Count,), {"action_space": space})}), num_envs=1)
    assert {head.kind for head in env.spec.heads} == {kind}
    env.reset()
    most = {
        "categorical": lambda head: torch.full((1, 2), head.size - 1),
        "bernoulli": lambda head: torch.ones(1, 2, head.size, dtype=torch.bool),
        "gaussian": lambda head: torch.ones(1, 2, head.size),
    }[kind]
    env.step({head.name: most(head) for head in env.spec.heads})
    assert env._game.taken[0].tolist() == [[given, given]]


def test_matches_are_truncated_and_scored_by_returns():
    env = make(named(short=TensorGame(Count, max_decisions=2, scoring=ReturnMargin(8.0))), num_envs=1)
    env.reset(torch.tensor([4]))
    env.step({"action": torch.tensor([[2, 0]])})
    step = env.step({"action": torch.tensor([[1, 1]])})
    assert step.truncated.all()
    assert step.outcome.score.tolist() == [0.5 + 2.0 / 16.0]
    endless = make(
        named(endless=TensorGame(lambda num_envs: OpensItself(num_envs, "SameStep"), max_decisions=1)), num_envs=1
    )
    endless.reset()
    with refused("invalid-game", 1):
        endless.step(choose(endless, 0))


def wrong(**changes: object) -> type[Count]:
    """Count with another value or method."""
    return type("Wrong", (Count,), changes)


@pytest.mark.parametrize(
    ("number", "game", "values"),
    [
        (0, lambda num_envs: SimpleNamespace(reset=None), ("observation_space",)),
        (1, wrong(observation_space=Text(5)), ("observation", "Text")),
        (7, wrong(action_space=Dict({"a": Discrete(2)})), ("Dict", "Discrete")),
        (2, wrong(action_space=Box(-np.inf, np.inf, (1,))), ("Box",)),
        (3, wrong(metadata={"autoreset_mode": "sometimes"}), ("autoreset_mode", "sometimes")),
        (4, wrong(step=lambda self, actions: (self.see(), np.zeros(1), [False], [False], {})),
         ("rewards", "(1,)", "(1, 2)")),
        (5, wrong(see=lambda self: np.zeros((1, 2, 7))), ("observation", "(1, 2, 7)")),
        (6, wrong(info=lambda self: {"score": np.full(1, 1.5)}), ("[1.5]", 0, 1)),
        (8, wrong(info=lambda self: [{}]), ("list", "info", "reset")),
        (9, wrong(reset=lambda self, seed, options=None: (0, {}, 0)), (3, "reset")),
        (10, wrong(reset=lambda self, seed, options=None: (0, None)), ("NoneType", "info", "reset")),
        (16, wrong(step=lambda self, actions: (*Count.step(self, actions)[:4], [{}])), ("list", "info", "step")),
        (11, wrong(max_decisions=0), ("max_decisions", 0)),
        (12, wrong(max_decisions="many"), ("max_decisions", "many")),
        (13, wrong(observation_space=Dict({"a": Box(0.0, 1.0, (2,))}), see=lambda self: {"b": 1}), ("a", "(b)")),
        (14, wrong(observation_space=Dict({"a": Box(0.0, 1.0, (2,))})), ("a", "ndarray")),
        (15, type("Forgets", (Turns,), {"see": lambda self: {"facts": Count.see(self)}}), ("action_mask",)),
    ],
)  # fmt: skip
def test_invalid_tensor_game_is_rejected(number: int, game: object, values: tuple):
    with refused("invalid-game", *values):
        play(named(**{f"wrong{number}": game}))


def play(name: str) -> None:
    """Two decisions of a match of seed 0, which ends with them."""
    env = make(name, num_envs=1)
    env.reset(torch.tensor([0]))
    for _ in range(2):
        env.step(choose(env, 0))


def test_a_longest_match_may_be_any_whole_number():
    assert declare(named(numbered=wrong(max_decisions=np.int64(5)))).max_decisions == 5


def test_switches_that_a_mask_forbids_are_refused():
    class Switches(Turns):
        action_space = MultiBinary(3)

    env = make(named(switches=Switches), num_envs=1)
    env.reset(torch.tensor([0]))
    with refused("invalid-action", 0, 1, "action"):
        env.step({"action": torch.tensor([[[True, True, False], [False] * 3]])})


@pytest.mark.parametrize("forbidden", [-np.inf, -1e9, np.nan])
def test_masks_that_are_added_to_logits_are_refused(forbidden: float):
    class Added(Turns):
        def see(self):
            seen = super().see()
            return seen | {"action_mask": np.where(seen["action_mask"], 0.0, forbidden)}

    with refused("invalid-game", f"{forbidden:g}", 1, 0):
        play(named(**{f"added{forbidden}": Added}))


def test_images_and_sets_are_declared_as_those_of_other_games():
    seen = Dict({"herd": Box(0.0, 1.0, (3, 2)), "herd_mask": MultiBinary(3), "view": Box(0, 255, (9, 9, 3), np.uint8)})
    herd, mask, view, _ = declare(named(farm=wrong(observation_space=seen))).observation
    assert isinstance(mask, MemberMask)
    assert isinstance(view, ImageBlock)
    assert mask.describes == (herd.name,)


def test_numbers_and_devices_that_make_no_sense_are_refused():
    for told in ({"agents_per_side": (2, 0)}, {"max_decisions": 0}):
        with refused("invalid-input", *(f"{name}={value}" for name, value in told.items())):
            TensorGame(Count, **told)
    with refused("invalid-input", "device"):
        TensorGame(Count).open("count", num_envs=1, device="cuda")
    with refused("invalid-input", 2):
        make(named(alone=Count), num_envs=1, processes=2)
    assert TensorGame(Count, autoreset=Autoreset.NEXT_STEP).autoreset_of("count", None) is Autoreset.NEXT_STEP


def test_pairs_play_the_same_match_on_swapped_sides():
    name = named(paired=Count)
    random = resolve_policy(name, "random")
    series = play_series(name, random, random, matches=8, seed=0)
    lengths = [match.decisions for match in series.matches]
    assert lengths[::2] == lengths[1::2]
    assert len(set(lengths)) > 1
