"""Games written in JAX are played as they are, by the interfaces of pgx, JaxMARL and Gymnax."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from refused import refused

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from arena.environments import declare, make  # noqa: E402
from arena.environments.adapters.jax import factory, from_gymnax, from_jaxmarl, from_pgx  # noqa: E402
from arena.environments.adapters.vector.declare import inspect_game  # noqa: E402
from arena.environments.adapters.vector.env import TensorMatches  # noqa: E402
from arena.play.series import play_series, resolve_policy  # noqa: E402

E = 4


class Params(SimpleNamespace):
    def replace(self, **changes):
        return Params(**{**vars(self), **changes})


class Walk:
    """A Gymnax environment: each step adds the action and a coin; it is done at 3, and a reward of 1 a step."""

    default_params = Params(max_steps_in_episode=5, goal=3)

    def observation_space(self, params):
        return SimpleNamespace(low=0.0, high=jnp.inf, shape=(2,))

    def action_space(self, params):
        return SimpleNamespace(n=2)

    def reset_env(self, key, params):
        start = jax.random.uniform(key)
        return jnp.stack([0.0, start]), (jnp.zeros((), jnp.int32), start)

    def step_env(self, key, state, action, params):
        place, start = state[0] + action, state[1]
        done = (place >= params.goal) | (params.max_steps_in_episode < 10)
        return jnp.stack([place.astype(float), start]), (place, start), jnp.float32(1.0), done, {}


class Chase:
    """A JaxMARL environment: `wolf_0` and `wolf_1` see two numbers and have three options, `hare_0` one and two."""

    agents = ("wolf_0", "wolf_1", "hare_0")
    max_steps = 3

    def observation_space(self, agent):
        return SimpleNamespace(low=-1.0, high=1.0, shape=(1 if agent == "hare_0" else 2,))

    def action_space(self, agent):
        return SimpleNamespace(n=2 if agent == "hare_0" else 3)

    def reset(self, key):
        return self.observe(), SimpleState(jnp.zeros((), jnp.int32))

    def step_env(self, key, state, actions):
        state = SimpleState(state.step + 1)
        caught = actions["wolf_0"] == 2
        rewards = {"wolf_0": 1.0 * caught, "wolf_1": 0.0 * caught, "hare_0": -1.0 * caught}
        over = caught | (state.step >= self.max_steps)
        return self.observe(), state, rewards, dict.fromkeys((*self.agents, "__all__"), over), {}

    def observe(self):
        return {agent: jnp.full(self.observation_space(agent).shape, 0.5) for agent in self.agents}


@jax.tree_util.register_pytree_node_class
class SimpleState:
    def __init__(self, step):
        self.step = step

    def tree_flatten(self):
        return (self.step,), None

    @classmethod
    def tree_unflatten(cls, _, leaves):
        return cls(*leaves)


def played(game, **options):
    return TensorMatches(inspect_game("game", game), num_envs=E, device="cpu", seed=1, **options)


def take(*actions):
    return {"action": torch.tensor([actions] * E)}


def test_pgx_games_follow_the_same_states_as_pgx_itself():
    pgx = pytest.importorskip("pgx")
    plain, env, rng = pgx.make("tic_tac_toe"), make("pgx:tic_tac_toe", num_envs=E, seed=3), np.random.default_rng(0)
    init, advance = jax.jit(plain.init), jax.jit(plain.step)
    shown = env.reset()
    words = env.seeds.view(torch.int32).reshape(E, 2).numpy().view(np.uint32)
    states = [init(jnp.asarray(key)) for key in words]

    for _ in range(5):  # nobody has won before
        assert shown.active.int().argmax(1).tolist() == [int(state.current_player) for state in states]
        mask = torch.stack([shown.masks["action"][row, int(state.current_player)] for row, state in enumerate(states)])
        assert mask.tolist() == [state.legal_action_mask.tolist() for state in states]
        chosen = [int(rng.choice(np.flatnonzero(state.legal_action_mask))) for state in states]
        step = env.step({"action": torch.tensor(chosen).unsqueeze(1).expand(E, 2)})
        states = [advance(state, action) for state, action in zip(states, chosen, strict=True)]
        assert step.reward.tolist() == [state.rewards.tolist() for state in states]
        assert step.terminated.tolist() == [bool(state.terminated) for state in states]
        shown = step.observation
        for row, state in enumerate(states):
            if not state.terminated:
                seen = shown.values[row, int(state.current_player), :-1]
                assert seen.tolist() == state.observation.astype(float).ravel().tolist()


def test_connect_four_is_declared_as_a_game_of_turns_between_like_sides():
    pytest.importorskip("pgx")
    spec = declare("pgx:connect_four")

    assert (spec.turn_based, spec.unlike_sides, spec.max_decisions, spec.zero_sum) == (True, None, 42, True)
    assert [(block.name, block.shape) for block in spec.observation] == [("observation", (6, 7, 2)), ("away", (1,))]
    assert [(head.kind, head.size, head.masked) for head in spec.heads] == [("categorical", 7, True)]


def test_matches_of_one_seed_begin_alike_and_a_series_is_played():
    pytest.importorskip("pgx")
    env = make("pgx:tic_tac_toe", num_envs=2, seed=0)
    shown = env.reset(torch.tensor([7, 7]))
    firsts = [shown.active.tolist()]
    assert firsts[0][0] == firsts[0][1]

    series = play_series(
        "pgx:tic_tac_toe", *(resolve_policy("pgx:tic_tac_toe", "random") for _ in range(2)), matches=8, seed=0
    )

    assert len(series.matches) == 8


def test_gymnax_games_are_played_side_by_side_with_the_same_luck():
    env = played(from_gymnax(Walk()))
    shown = env.reset()
    assert torch.equal(shown.values[:, 0, 1], shown.values[:, 1, 1])
    assert len(set(shown.values[:, 0, 1].tolist())) == E

    for _ in range(2):
        step = env.step(take(1, 0))
    step = env.step(take(1, 0))  # home is at the goal, and waits
    assert not step.ended.any()
    assert step.observation.active.tolist() == [[False, True]] * E
    step = env.step(take(0, 1))
    assert step.reward.tolist() == [[0.0, 1.0]] * E
    step = env.step(take(0, 0))

    assert step.truncated.all()
    assert not step.terminated.any()
    assert step.final_observation.active.tolist() == [[False, True]] * E
    assert step.outcome.score.tolist() == [0.0] * E, "away has earned for five steps, home for three"
    assert step.observation.active.all()


def test_jaxmarl_agents_of_unlike_spaces_share_one_with_zeros_and_a_mask():
    env = played(from_jaxmarl(Chase()))
    shown = env.reset()

    assert env.spec.agents_per_side == (2, 1)
    assert env.spec.unlike_sides is not None
    assert shown.values[0, :, :2].tolist() == [[0.5, 0.5], [0.5, 0.5], [0.5, 0.0]]
    assert shown.masks["action"][0].tolist() == [[True] * 3, [True] * 3, [True, True, False]]
    caught = env.step(take(2, 0, 0))
    assert caught.terminated.all()
    assert caught.outcome.score.tolist() == [1.0] * E


def test_jaxmarl_episodes_at_max_steps_are_truncated():
    env = played(from_jaxmarl(Chase()))
    env.reset()
    steps = [env.step(take(0, 0, 0)) for _ in range(3)]

    assert [bool(step.ended.any()) for step in steps] == [False, False, True]
    assert steps[-1].truncated.all()
    assert steps[-1].final_observation.active.all()


def test_games_of_more_than_two_players_are_refused():
    with refused("invalid-game", 4):
        from_pgx(SimpleNamespace(id="mahjong", num_players=4))


@pytest.mark.parametrize("package", ["pgx", "gymnax", "jaxmarl"])
def test_missing_library_is_named_with_its_extra(package: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, package, None)

    extra = "jax" if package == "pgx" else package
    with refused("missing-package", "echelon-league", extra):
        declare(f"{package}:never-declared")


def test_unknown_game_is_refused_with_the_known_ones():
    pytest.importorskip("pgx")
    with refused("unknown-environment", "tic_tac_toe"):
        declare("pgx:no_such_game")


@pytest.mark.parametrize(
    "name", ["gymnax:CartPole-v1", pytest.param("jaxmarl:MPE_simple_tag_v3", marks=pytest.mark.slow)]
)
def test_games_of_gymnax_and_jaxmarl_are_played_by_name(name: str):
    pytest.importorskip(name.partition(":")[0])
    env = make(name, num_envs=2, seed=0)
    env.reset()
    actions = {"action": torch.zeros(2, env.spec.num_agents, dtype=torch.int64)}
    steps = [env.step(actions) for _ in range(12)]

    assert any(step.ended.any() for step in steps) or env.spec.max_decisions > len(steps)
    assert all(step.observation.values.isfinite().all() for step in steps)


def test_nim_of_the_documentation_is_played(tmp_path, monkeypatch: pytest.MonkeyPatch):
    page = (Path(__file__).parents[4] / "docs/guides/games" / "jax.md").read_text(encoding="utf-8")
    (tmp_path / "nim_of_the_page.py").write_text(re.search(r"```python\n(.+?)```", page, re.DOTALL)[1])
    monkeypatch.syspath_prepend(tmp_path)

    name = "nim_of_the_page:game"
    assert declare(name).unlike_sides is None
    series = play_series(name, *(resolve_policy(name, "random") for _ in range(2)), matches=20, seed=0)
    assert {match.decisions <= 14 for match in series.matches} == {True}


def test_a_library_that_prints_while_it_is_imported_is_silent(tmp_path, monkeypatch: pytest.MonkeyPatch, capfd):
    """JaxMARL takes its standard output anew before it prints."""
    code = "import sys\nprint('one')\nsys.stdout = sys.__stdout__\nprint('two')\n"
    (tmp_path / "loud_library.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    before = sys.stdout, sys.__stdout__

    factory._library("loud:game", "loud_library")

    assert (sys.stdout, sys.__stdout__) == before
    assert capfd.readouterr().out == ""


def test_tug_of_the_documentation_is_played(monkeypatch: pytest.MonkeyPatch):
    root = Path(__file__).parents[4]
    page = (root / "docs/guides/games" / "jax.md").read_text(encoding="utf-8")
    assert (root / "examples" / "tug_jax.py").read_text(encoding="utf-8") in re.findall(
        r"```python\n(.+?)```", page, re.DOTALL
    )
    monkeypatch.syspath_prepend(root / "examples")

    series = play_series("tug_jax:tug", *(resolve_policy("tug_jax:tug", "random") for _ in range(2)), matches=4, seed=0)
    assert len(series.matches) == 4
