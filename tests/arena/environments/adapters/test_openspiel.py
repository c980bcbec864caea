import sys
from collections.abc import Iterator

import numpy as np
import pyspiel
import pytest
import torch
from refused import refused

from arena.environments import declare, make, make_baseline, names
from arena.environments.adapters.openspiel.declare import tree_of
from arena.environments.adapters.openspiel.library import load_game
from arena.environments.adapters.openspiel.tables import START, TransitionTables
from arena.environments.adapters.openspiel.tree import AWAY, HOME, unroll
from arena.errors import InvalidActionError

KUHN = "openspiel:kuhn_poker"
LEDUC = "openspiel:leduc_poker"
DICE = "openspiel:liars_dice(dice_sides=4)"
GOOFSPIEL = "openspiel:goofspiel(imp_info=True,num_cards=4)"
PENNIES = "openspiel:matrix_mp"
E = 64


def settled(state: pyspiel.State) -> Iterator[pyspiel.State]:
    """The histories to which chance may lead from one before anybody acts."""
    if not state.is_chance_node():
        yield state
        return
    for outcome, _ in state.chance_outcomes():
        yield from settled(state.child(outcome))


def actors(state: pyspiel.State) -> list[int]:
    if state.is_terminal():
        return []
    return [HOME, AWAY] if state.is_simultaneous_node() else [state.current_player()]


def after(state: pyspiel.State, actions: list[int]) -> pyspiel.State:
    following = state.clone()
    if state.is_simultaneous_node():
        following.apply_actions(actions)
    else:
        following.apply_action(actions[state.current_player()])
    return following


def looks_like(state: pyspiel.State, values: np.ndarray, active: np.ndarray) -> bool:
    return actors(state) == np.flatnonzero(active).tolist() and all(
        np.array_equal(np.float32(state.information_state_tensor(side)), values[side, :-1]) for side in actors(state)
    )


@pytest.mark.parametrize("name", [KUHN, LEDUC, DICE, GOOFSPIEL, PENNIES])
def test_matches_are_those_that_openspiel_plays(name: str):
    env, rng = make(name, num_envs=E, seed=3), torch.Generator().manual_seed(0)
    player, observation = make_baseline(name, "random"), env.reset()
    opened = [*settled(load_game(name).new_initial_state())]
    possible, ended = [opened for _ in range(E)], 0
    for _ in range(2 * env.spec.max_decisions):
        seen = zip(observation.values.numpy(), observation.active.numpy(), strict=True)
        possible = [
            [state for state in states if looks_like(state, values, active)]
            for states, (values, active) in zip(possible, seen, strict=True)
        ]
        for states, mask, active in zip(possible, observation.masks["action"], observation.active, strict=True):
            assert states, "nothing in OpenSpiel looks like this"
            for side in (HOME, AWAY):
                legal = states[0].legal_actions(side) if active[side] else []
                assert mask[side].nonzero().flatten().tolist() == legal
        flat = observation.side(slice(0, 2))
        chosen = player.act(flat, (), ~flat.active, rng)[0]["action"].view(E, 2)
        step = env.step({"action": chosen})
        for row in range(E):
            reached = [after(state, chosen[row].tolist()) for state in possible[row]]
            if step.terminated[row]:
                ended += 1
                assert step.reward[row].tolist() in [state.returns() for state in reached if state.is_terminal()]
                possible[row] = opened
            else:
                assert step.reward[row].tolist() == [0.0, 0.0]
                possible[row] = [each for state in reached for each in settled(state)]
        observation = step.observation
    assert ended >= E


def test_score_is_the_return_scaled_by_the_largest():
    env, rng = make(LEDUC, num_envs=E), torch.Generator().manual_seed(0)
    observation, player = env.reset(), make_baseline(LEDUC, "random")
    for _ in range(2 * env.spec.max_decisions):
        flat = observation.side(slice(0, 2))
        step = env.step({"action": player.act(flat, (), ~flat.active, rng)[0]["action"].view(E, 2)})
        assert torch.equal(step.outcome.score, 0.5 + step.reward[:, HOME].double() / 26.0)
        assert not step.reward[~step.terminated].signbit().any(), "nothing is written as -0"
        observation = step.observation


@pytest.mark.parametrize(
    ("name", "information_states", "histories"), [(KUHN, 12, 58), (LEDUC, 936, 9457), (DICE, 1024, 8181)]
)
def test_trees_are_of_the_known_size(name: str, information_states: int, histories: int):
    tree = tree_of(name)

    assert (len(tree.side), len(tree.parent)) == (information_states, histories)
    assert (tree.parent[1:] < np.arange(1, histories)).all()
    assert tree.legal.any(axis=1).all()


def draw(moves: TransitionTables, move: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """Where moves lead by numbers in [0, 1)."""
    return moves.outcome[np.searchsorted(moves.edge, move + chance, side="right")]


def test_chance_outcomes_have_their_probabilities():
    tree = tree_of(KUHN)

    drawn = draw(TransitionTables.of(tree), np.full(600, START), (np.arange(600) + 0.5) / 600)

    nodes, counts = np.unique(drawn, return_counts=True)
    assert np.allclose(tree.chance[nodes], 1 / 6)
    assert counts.tolist() == [100] * 6


def test_every_number_that_chance_can_draw_leads_somewhere_that_the_move_allows():
    tree = tree_of(DICE)
    moves = TransitionTables.of(tree)
    every = np.arange(len(moves.certain))

    least, most = (draw(moves, every, np.full(every.shape, chance)) for chance in (0.0, 1.0 - 2.0**-24))

    assert (least <= most)[1:].all()
    assert np.array_equal(least[moves.certain >= 0], moves.certain[moves.certain >= 0])
    assert np.array_equal(least[moves.certain >= 0], most[moves.certain >= 0])
    assert tree.parent[least[START]] != tree.parent[most[START]]


def test_sides_that_choose_at_once_are_active_together_and_others_take_turns():
    for name, turn_based, count in ((GOOFSPIEL, False, 2), (KUHN, True, 1)):
        env = make(name, num_envs=E)
        assert env.spec.turn_based is turn_based
        assert (env.reset().active.sum(dim=1) == count).all()


def test_inactive_player_has_empty_observation_and_free_choice():
    env = make(KUHN, num_envs=E)
    observation = env.reset()

    assert not observation.values[~observation.active].any()
    assert not observation.masks["action"][~observation.active].any()
    step = env.step({"action": torch.where(observation.active, 1, 99)})
    assert step.observation.active[:, AWAY].all()


@pytest.mark.parametrize("action", [2, -1])
def test_illegal_action_is_refused_with_the_legal_ones(action: int):
    env = make(KUHN, num_envs=2)
    env.reset()

    with refused("invalid-action", action, 1, KUHN, 0):
        env.step({"action": torch.tensor([[0, 0], [action, 0]])})


def test_refused_actions_change_nothing():
    refusal, plain = make(KUHN, num_envs=E, seed=2), make(KUHN, num_envs=E, seed=2)
    refusal.reset(), plain.reset()
    calls = torch.zeros(E, 2, dtype=torch.int64)
    for _ in range(6):
        with pytest.raises(InvalidActionError):
            refusal.step({"action": torch.full((E, 2), 2)})
        one, other = refusal.step({"action": calls}), plain.step({"action": calls})
        assert torch.equal(one.observation.values, other.observation.values)
        assert torch.equal(one.reward, other.reward)
        assert torch.equal(refusal.next_seeds, plain.next_seeds)


def test_raise_beyond_the_limit_is_refused():
    env, call_raise = make(LEDUC, num_envs=1), torch.full((1, 2), 2)
    env.reset()
    for _ in range(2):
        env.step({"action": call_raise})

    with refused("invalid-action", 2, 0, 1):
        env.step({"action": call_raise})


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("openspiel:kuhn_poker(players=3)", (3,)),
        ("openspiel:tiny_hanabi", ("IDENTICAL", "ZERO_SUM")),
        ("openspiel:negotiation", ("GENERAL_SUM", "ZERO_SUM")),
        ("openspiel:mfg_crowd_modelling", (1,)),
        ("openspiel:coordinated_mp", ("tensor",)),
    ],
)
def test_unsupported_openspiel_game_is_rejected(name: str, values: tuple):
    with refused("invalid-game", name, *values):
        make(name, num_envs=1)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("openspiel:nonesuch", ("nonesuch", "pyspiel.registered_names")),
        ("openspiel:kuhn_poker(jokers=2)", ("jokers",)),
        ("openspiel:kuhn_poker()", ("openspiel:kuhn_poker",)),
        ("openspiel:goofspiel(num_cards=4,imp_info=True)", ("openspiel:goofspiel", "imp_info=True", "num_cards=4")),
    ],
)
def test_non_canonical_openspiel_names_are_rejected(name: str, values: tuple):
    with refused("unknown-environment", *values):
        declare(name)


@pytest.mark.parametrize(
    ("limits", "rule"),
    [({"max_nodes": 9456}, "9,456 histories"), ({"max_floats": 28_079}, "28,079 floats")],
)
def test_game_that_is_too_large_is_refused_by_the_limit(limits: dict[str, int], rule: str):
    game = load_game(LEDUC)

    with refused("no-game-tables", LEDUC, rule):
        unroll(LEDUC, game, **limits)
    assert unroll(LEDUC, game, **{name: limit + 1 for name, limit in limits.items()})


def test_without_openspiel_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pyspiel", None)

    with refused("missing-package", "echelon-league[openspiel]"):
        load_game(KUHN)
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None)
    assert not [name for name in names() if name.startswith("openspiel")]


def test_signature_depends_on_game_parameters():
    games = [KUHN, LEDUC, DICE, "openspiel:liars_dice(dice_sides=3)", "openspiel:liars_dice(dice_sides=3,numdice=1)"]

    assert len({declare(name).signature for name in games}) == len(games)
    assert declare(games[3]).rules == declare(games[4]).rules != declare(DICE).rules


def test_perfect_information_is_derived_from_observations():
    name = "openspiel:nim(pile_sizes=1;2)"
    env = make(name, num_envs=1)

    assert [block.name for block in env.spec.observation] == ["observation", "away"]
    game = load_game(name)
    assert env.reset().values[0, 0, :-1].tolist() == game.new_initial_state().observation_tensor(0)
