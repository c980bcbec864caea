"""Spaces of PettingZoo's games as blocks and heads: what each becomes, what is written there, and what masks forbid."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from gymnasium import spaces
from refused import refused
from space_games import Bazaar
from zoo_games import Duel

from arena.environments import Channels, ChoiceBlock, ImageBlock, MemberMask, declare, make
from arena.environments.adapters.match import SingleMatchGame
from arena.environments.adapters.pettingzoo import TwoSided
from arena.environments.adapters.pettingzoo.declare import inspect_game
from arena.environments.adapters.pettingzoo.matches import open_match
from arena.environments.adapters.spaces.actions import ActionDecoder, factors_of, heads_for
from arena.environments.adapters.spaces.flatten import flatten_space, lay_out
from arena.environments.adapters.spaces.observations import ObservationEncoder
from arena.environments.adapters.subprocess.env import InProcess, SyncBatch
from arena.play.series import play_series
from arena.policies.scripted import RandomPolicy

BAZAAR = declare("space_games:bazaar")


def blocks_of(space: spaces.Space, **channels: Channels):
    return {part.block.name: part.block for part in flatten_space(space, "left", channels)}


def written(space: spaces.Space, observation) -> np.ndarray:
    blocks, placed = lay_out({"left": flatten_space(space, "left")})
    into = np.full(sum(block.size for block in blocks), np.nan, np.float32)
    ObservationEncoder(placed["left"], away=True).write(observation, into)
    return into


# observations


@pytest.mark.parametrize(
    ("shape", "dtype", "channels"),
    [
        ((13, 13, 5), np.float32, Channels.LAST),
        ((8, 8, 111), bool, Channels.LAST),
        ((3, 64, 64), np.uint8, Channels.FIRST),
        ((4, 20, 30), np.uint8, Channels.FIRST),
        ((20, 30, 4), np.uint8, Channels.LAST),
        ((9, 9, 9), np.uint8, Channels.LAST),
        ((10, 12), np.uint8, Channels.LAST),
        ((10, 12), np.float32, None),
        ((6, 7, 2), np.int8, None),
        ((2, 2, 1), np.uint8, None),
        ((7, 100, 3), np.uint8, None),
    ],
)
def test_a_box_that_looks_like_an_image_is_one(shape, dtype, channels):
    block = blocks_of(spaces.Box(0, 1, shape, dtype))["observation"]
    assert block.shape == shape
    assert (block.channels if isinstance(block, ImageBlock) else None) == channels


def test_a_box_without_bounds_is_no_image_and_a_named_one_must_have_them():
    endless = spaces.Box(-np.inf, np.inf, (9, 9, 3), np.float32)
    assert not isinstance(blocks_of(endless)["observation"], ImageBlock)
    with refused("invalid-game", "observation", "(9, 9, 3)", "[-inf, inf]"):
        blocks_of(endless, observation=Channels.LAST)


def test_images_are_declared_by_the_game():
    small = spaces.Box(0, 255, (3, 5, 5), np.uint8)
    game = TwoSided(lambda: Duel(spaces.Discrete(2), seen=small), images={"observation": "first"})
    (image, _) = inspect_game("small", game).spec.observation
    assert (image.channels, image.sides, image.depth) == (Channels.FIRST, (5, 5), 3)
    with refused("invalid-game", "first", "last"):
        inspect_game("small", replace(game, images={"observation": "middle"}))


def test_choices_of_many_are_numbers_and_of_few_a_place_for_each():
    few, many = spaces.Discrete(64, start=3), spaces.MultiDiscrete([65, 2], start=[1, 0])
    assert blocks_of(few)["observation"].shape == (64,)
    assert written(few, 5).tolist() == [0.0, 0.0, 1.0, *[0.0] * 61, 1.0]
    block = blocks_of(many)["observation"]
    assert isinstance(block, ChoiceBlock)
    assert (block.options, block.high) == ((65, 2), 64.0)
    assert written(many, np.array([65, 1])).tolist() == [64.0, 1.0, 1.0]


@pytest.mark.parametrize(("space", "shown"), [(spaces.Discrete(5, start=1), 0), (spaces.Discrete(80), 80)])
def test_a_choice_that_its_space_does_not_have_is_refused(space, shown):
    with refused("invalid-game", shown):
        written(space, shown)


def test_a_mask_named_after_an_entry_makes_it_a_set():
    blocks = {block.name: block for block in BAZAAR.observation}
    mask = blocks["units_mask"]
    assert isinstance(mask, MemberMask)
    assert (mask.describes, mask.chosen_by) == (("units.kind", "units.where"), ("target",))
    assert (blocks["units.kind"].shape, blocks["units.where"].shape) == ((4, 3), (4, 2))


@pytest.mark.parametrize(
    "other",
    [
        {"herd": spaces.Box(0, 1, (4, 2)), "herd_mask": spaces.MultiBinary(3)},
        {"herd": spaces.Box(0, 1, (4, 2)), "herd_mask": spaces.Box(-1, 1, (4,))},
        {"herd": spaces.MultiDiscrete([2, 2, 3, 2]), "herd_mask": spaces.MultiBinary(4)},
        {"herd": spaces.Discrete(4), "herd_mask": spaces.MultiBinary(4)},
        {"herd": spaces.Box(0, 1, (4, 2)), "herd_mask": spaces.MultiDiscrete([2] * 4)},
        {
            "herd": spaces.Dict({"a": spaces.Box(0, 1, (4, 2)), "b": spaces.Box(0, 1, (2,))}),
            "herd_mask": spaces.MultiBinary(4),
        },
    ],
    ids=["other length", "other bounds", "unlike members", "one for all", "no switches", "a part for all"],
)
def test_set_requires_one_row_per_member(other):
    assert not any(isinstance(block, MemberMask) for block in blocks_of(spaces.Dict(other)).values())


def test_cards_in_a_set_have_a_row_of_places_each_however_many_there_are():
    herd = spaces.Dict({"herd": spaces.MultiDiscrete([90, 90]), "herd_mask": spaces.MultiBinary(2)})
    assert blocks_of(herd)["herd"].shape == (2, 90)
    seen = written(herd, {"herd": np.array([3, 89]), "herd_mask": np.array([1, 1])})
    assert np.flatnonzero(seen).tolist() == [3, 179, 180, 181, 182]


def test_sets_of_unlike_roles_keep_to_their_own_blocks():
    herd = spaces.Dict({"herd": spaces.Box(0, 1, (4, 2)), "herd_mask": spaces.MultiBinary(4)})
    blocks, _ = lay_out({"dog": flatten_space(herd, "dog"), "cat": flatten_space(spaces.Discrete(2), "cat")})
    assert [block.name for block in blocks] == ["dog.herd", "dog.herd_mask", "cat.observation", "away"]
    assert blocks[1].describes == ("dog.herd",)


def test_choice_refers_to_its_named_set_only():
    herds = {name: spaces.Box(0, 1, (3, 2)) for name in ("cows", "goats")}
    seen = spaces.Dict(herds | {f"{name}_mask": spaces.MultiBinary(3) for name in herds})
    game = TwoSided(lambda: Duel(spaces.Discrete(4), seen=seen), chosen_from={"action": "goats"})
    sets = [block for block in inspect_game("herds", game).spec.observation if isinstance(block, MemberMask)]
    assert [(each.name, each.chosen_by) for each in sets] == [("cows_mask", ()), ("goats_mask", ("action",))]


@pytest.mark.parametrize("chosen_from", [{"nobody": "units"}, {"target": "picture"}, {"ware_1": "units"}])
def test_a_choice_of_a_set_that_there_is_not_is_refused(chosen_from):
    with refused("invalid-game", "price_1", 2, 5, "ware_0", "ware_1", 3):
        inspect_game("bazaar", TwoSided(Bazaar, chosen_from=chosen_from))


# actions


def test_dictionaries_and_tuples_of_actions_are_heads_side_by_side():
    assert [(head.name, head.kind, head.size, head.masked) for head in BAZAAR.heads] == [
        ("price_0", "gaussian", 1, False),
        ("price_1", "categorical", 2, True),
        ("stalls", "bernoulli", 2, True),
        ("target", "categorical", 5, True),
        ("ware_0", "categorical", 2, True),
        ("ware_1", "categorical", 3, True),
    ]
    pair = spaces.Tuple((spaces.Discrete(2), spaces.Dict({"x": spaces.MultiDiscrete([2, 3])})))
    assert [factor.name for factor in factors_of(pair, "left")] == ["action_0", "action_1.x_0", "action_1.x_1"]


def test_choices_of_every_part_reach_the_game_as_its_space_has_them():
    env = make("space_games:bazaar", num_envs=1)
    env.reset(torch.tensor([3]))
    env.step(
        {
            "price_0": torch.tensor([[[-1.0], [0.5]]]),
            "price_1": torch.tensor([[1, 0]]),
            "stalls": torch.tensor([[[True, False], [False, False]]]),
            "target": torch.tensor([[1, 1]]),
            "ware_0": torch.tensor([[0, 0]]),
            "ware_1": torch.tensor([[1, 2]]),
        }
    )
    (done,) = env._stepper._rows._matches[0][2]._env.done
    assert [(float(each["price"][0][0]), each["price"][1]) for each in done.values()] == [(0.0, 6), (7.5, 5)]
    assert [each["ware"].tolist() for each in done.values()] == [[0, 2], [0, 3]]
    assert [each["stalls"].tolist() for each in done.values()] == [[1, 0], [0, 0]]
    assert [each["target"] for each in done.values()] == [1, 1]


@pytest.mark.parametrize("game", ["space_games:bazaar", "space_games:bazaar_as_spaces"])
def test_all_mask_formats_are_applied_in_play(game: str):
    """The game itself refuses what its masks forbid."""
    random = RandomPolicy(declare(game).heads)
    assert len(play_series(game, random, random, matches=20, seed=0).matches) == 20


def test_switches_that_a_mask_forbids_are_refused_before_anything_is_played():
    env = make("space_games:bazaar", num_envs=2)
    observation = env.reset()
    rows = observation.side(slice(0, 2))
    drawn, _ = RandomPolicy(env.spec.heads).act(rows, (), rows.active, torch.Generator().manual_seed(0))
    actions = {name: action.reshape(2, 2, *action.shape[1:]) for name, action in drawn.items()}
    actions["stalls"] = actions["stalls"].clone()
    actions["stalls"][1, 1, 1] = True
    with refused("invalid-action", 1, "stalls"):
        env.step(actions)
    actions["stalls"][1, 1, 1] = False
    assert env.step(actions).outcome.decisions.tolist() == [1, 1]


def hands(space: spaces.Space, other: spaces.Space | None = None) -> ActionDecoder:
    factors = {name: factors_of(each, name) for name, each in (("one", space), ("other", other or space))}
    return ActionDecoder(0, space, heads_for(factors, masked=True))


def legal(space: spaces.Space, told, other: spaces.Space | None = None) -> dict[str, list[int]]:
    return {name: mask.astype(int).tolist() for name, mask in hands(space, other).legal(told).items()}


TWO = spaces.MultiDiscrete([2, 3])
NESTED = spaces.Dict({"a": TWO, "b": spaces.Tuple((spaces.Box(0, 1, (2,)), spaces.MultiBinary(2)))})


@pytest.mark.parametrize(
    ("space", "told", "expected"),
    [
        (TWO, [1, 0, 0, 1, 1], {"action_0": [1, 0], "action_1": [0, 1, 1]}),
        (TWO, np.array([1, 0, 0, 1, 1]), {"action_0": [1, 0], "action_1": [0, 1, 1]}),
        (TWO, (np.array([1, 0]), np.array([0, 1, 1])), {"action_0": [1, 0], "action_1": [0, 1, 1]}),
        (TWO, (None, [0, 1, 0]), {"action_0": [1, 1], "action_1": [0, 1, 0]}),
        (spaces.Discrete(2), np.array([0.0, 1.0], np.float32), {"action": [0, 1]}),
        (spaces.Discrete(2), np.array([0, 1], np.int8), {"action": [0, 1]}),
        (spaces.MultiBinary(3), np.array([1, 0, 2]), {"action": [1, 0, 1]}),
        (spaces.MultiBinary((1, 2)), np.array([[1, 0]]), {"action": [1, 0]}),
        (NESTED, {"b": (None, [0, 1])}, {"a_0": [1, 1], "a_1": [1, 1, 1], "b_1": [0, 1]}),
        (NESTED, {"a": [1, 0, 1, 1, 0]}, {"a_0": [1, 0], "a_1": [1, 1, 0], "b_1": [1, 1]}),
        (NESTED, [1, 0, 1, 1, 0, 0, 1], {"a_0": [1, 0], "a_1": [1, 1, 0], "b_1": [0, 1]}),
    ],
)
def test_mask_lists_legal_options_of_every_head(space, told, expected):
    assert legal(space, told) == expected


def test_a_mask_of_fewer_options_than_others_have_leaves_theirs_out():
    assert legal(TWO, [1, 1, 0, 1, 1], spaces.MultiDiscrete([4, 3])) == {
        "action_0": [1, 1, 0, 0],
        "action_1": [0, 1, 1],
    }
    assert legal(TWO, (None, None), spaces.MultiDiscrete([4, 3]))["action_0"] == [1, 1, 0, 0]


@pytest.mark.parametrize(
    ("space", "told", "values"),
    [
        (spaces.Discrete(3), [1, 0], (2, 3)),
        (TWO, [1, 0, 1], (3, 5)),
        (TWO, ([1, 0],), (1, 2)),
        (TWO, ([1, 0], [1]), (1, "action_1", 3)),
        (NESTED, {"c": [1]}, ("b",)),
        (NESTED, {"b": ([1, 1], None)}, ("Box",)),
        (spaces.Discrete(2), np.array([0.0, -np.inf]), ("-inf", 1, 0)),
        (spaces.Discrete(2), [0, -(10**9)], (0,)),
        (spaces.Discrete(2), np.array([0.0, np.nan], np.float32), ("nan",)),
        (TWO, [0.0, 0.0, 0.0, 0.0, -1e9], ("-1e+09",)),
        (TWO, ([0, 0], [0.0, 0.0, -1e9]), ("-1e+09",)),
        (NESTED, {"b": (None, [0.0, -np.inf])}, ("-inf",)),
        (spaces.MultiBinary((1, 2)), np.array([[0.0, -np.inf]]), ("-inf",)),
    ],
)
def test_a_mask_that_does_not_fit_is_refused(space, told, values):
    with refused("invalid-game", *values):
        legal(space, told)


def test_mask_without_legal_option_is_rejected():
    class Barred(Bazaar):
        def _infos(self):
            return {agent: {"action_mask": [0] * 14} for agent in self.agents}

    declared = inspect_game("barred", TwoSided(Barred))
    hosted = SingleMatchGame(declared.spec, partial(open_match, declared))
    env = SyncBatch(declared.spec, lambda rows: InProcess(hosted, rows), num_envs=1, device="cpu", seed=0)
    seen = env.reset().side(slice(0, 2))
    actions, _ = RandomPolicy(declared.spec.heads).act(seen, (), seen.active, torch.Generator())
    with refused("invalid-action", 1):
        env.step({name: action.unsqueeze(0) for name, action in actions.items()})


def test_mask_of_wrong_size_error_names_the_game():
    class Wrong(Bazaar):
        def _infos(self):
            return {agent: {"action_mask": [1, 0]} for agent in self.agents}

    declared = inspect_game("wrong", TwoSided(Wrong))
    here = InProcess(SingleMatchGame(declared.spec, partial(open_match, declared)), 1)
    with refused("invalid-game", 2, 14):
        here.open()


@pytest.mark.parametrize(
    ("space", "values"),
    [
        (spaces.Dict({"a": spaces.Text(3)}), ("Text", "Discrete", "MultiDiscrete")),
        (spaces.Dict({"a": spaces.Tuple((spaces.Discrete(2),)), "a_0": spaces.Discrete(2)}), ("a_0",)),
        (spaces.Dict({"a": spaces.Box(-np.inf, np.inf, (1,))}), ("Box",)),
        (spaces.Sequence(spaces.Discrete(2)), ("Sequence", "Discrete")),
    ],
)
def test_actions_that_are_no_heads_are_refused(space, values):
    with refused("invalid-game", *values):
        factors_of(space, "left")


def test_agents_with_differently_named_actions_are_asymmetric():
    one, other = (factors_of(spaces.Dict({name: spaces.Discrete(2)}), name) for name in ("walk", "run"))
    with refused("invalid-game", "left", "right"):
        heads_for({"left": one, "right": other}, masked=False)
