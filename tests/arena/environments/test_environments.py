"""What every registered environment must honour, whatever its game."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from refused import refused

from arena.environments import EnvironmentSpec, HeadKind, RoundsSpec, baselines, declare, make, make_baseline, names
from arena.environments.base import Actions, CountsBytes, Environment, Observation, StepResult, supports
from arena.play.throughput import measure_memory

E = 5
UNLISTED = (
    "openspiel:goofspiel(imp_info=True,num_cards=4)",
    "openspiel:liars_dice(dice_sides=4)",
    "openspiel:matrix_rps",
    "openspiel:kuhn_poker:rounds=3",
    "recall:rounds=2",
    "rps:rounds=4",
)


@pytest.fixture(params=[*names(), *UNLISTED])
def env(request: pytest.FixtureRequest) -> Environment:
    return make(request.param, num_envs=E, seed=1)


def random_actions(env: Environment, observation: Observation, rng: torch.Generator) -> Actions:
    rows = observation.side(slice(0, env.spec.num_agents))
    actions, _ = make_baseline(env.spec.name, "random").act(rows, (), ~rows.active, rng)
    return {name: action.unflatten(0, (env.num_envs, -1)) for name, action in actions.items()}


def play(env: Environment, steps: int, seed: int = 0) -> list[StepResult]:
    rng, observation, log = torch.Generator().manual_seed(seed), env.reset(), []
    for _ in range(steps):
        log.append(env.step(random_actions(env, observation, rng)))
        observation = log[-1].observation
    return log


def check_observation(spec: EnvironmentSpec, observation: Observation) -> None:
    shape = (E, spec.num_agents)
    assert observation.values.shape == (*shape, spec.observation_size)
    assert observation.values.dtype is torch.float32
    assert observation.active.shape == shape
    assert set(observation.masks) == {head.name for head in spec.heads if head.masked}
    for head in spec.heads:
        if head.masked:
            mask = observation.masks[head.name]
            assert mask.shape == (*shape, head.size)
            if head.kind is HeadKind.CATEGORICAL:
                assert bool(mask.any(dim=-1)[observation.active].all()), "who acts needs a legal option"
    for block in spec.observation:
        values = observation.values[..., spec.layout[block.name]]
        assert bool(((values >= block.low) & (values <= block.high)).all()), block.name


@pytest.mark.holds("G6")
def test_spec_is_complete(env: Environment):
    spec = env.spec

    assert spec.sides == len(spec.agents_per_side) == 2
    assert len(spec.roles) == spec.num_agents
    assert spec.reasons
    assert len({head.name for head in spec.heads}) == len(spec.heads)
    assert sum(entries.stop - entries.start for entries in spec.layout.values()) == spec.observation_size
    assert spec.side(away=False).stop == spec.side(away=True).start
    assert "random" in [baseline.name for baseline in baselines(spec.name)]


@pytest.mark.holds("D8")
def test_steps_are_as_declared(env: Environment):
    spec = env.spec
    check_observation(spec, env.reset())
    ends = 0
    for step in play(env, spec.max_decisions + 1):
        check_observation(spec, step.observation)
        check_observation(spec, step.final_observation)
        assert step.reward.shape == (E, spec.num_agents)
        assert step.reward.dtype is torch.float32
        assert not bool((step.terminated & step.truncated).any())
        ended = step.terminated | step.truncated
        assert bool(((step.outcome.score >= 0.0) & (step.outcome.score <= 1.0)).all())
        assert step.outcome.score.dtype is torch.float64
        assert bool((step.outcome.reason < len(spec.reasons)).all())
        assert bool((step.outcome.decisions <= spec.max_decisions).all())
        assert not bool((step.over & ~ended).any()), "a match ends with an episode"
        assert bool((step.outcome.score[~step.over] == 0.5).all())
        assert bool((step.outcome.reason[~step.over] == 0).all())
        assert torch.equal(step.final_observation.values[~ended], step.observation.values[~ended])
        ends += int(step.over.sum())
    assert ends >= E


def test_same_seed_repeats_and_another_does_not(env: Environment):
    name, steps = env.spec.name, 2 * min(env.spec.max_decisions, 30)

    first, second = (play(make(name, num_envs=E, seed=1), steps) for _ in range(2))

    for one, other in zip(first, second, strict=True):
        assert torch.equal(one.observation.values, other.observation.values)
        assert torch.equal(one.reward, other.reward)
    assert not torch.equal(make(name, num_envs=E, seed=2).next_seeds, make(name, num_envs=E, seed=1).next_seeds)


def test_row_seeds_do_not_depend_on_the_size_of_the_batch(env: Environment):
    assert torch.equal(make(env.spec.name, num_envs=2, seed=1).next_seeds, env.next_seeds[:2])
    env.reset()
    assert bool((env.seeds != env.next_seeds).all())


def test_reset_takes_given_seeds(env: Environment):
    seeds = torch.arange(E) + 100

    first = env.reset(seeds)
    assert torch.equal(env.seeds, seeds)
    play(env, 3)
    again = env.reset(seeds)

    assert torch.equal(first.values, again.values)


def test_returned_tensors_are_not_overwritten(env: Environment):
    log = play(env, 1)
    kept = [log[0].observation.values.clone(), log[0].reward.clone(), log[0].outcome.score.clone()]

    play(env, 4, seed=1)

    assert torch.equal(log[0].observation.values, kept[0])
    assert torch.equal(log[0].reward, kept[1])
    assert torch.equal(log[0].outcome.score, kept[2])


@pytest.mark.holds("T16")
def test_stepping_before_the_first_reset_is_refused(env: Environment):
    rng = torch.Generator().manual_seed(0)
    actions = random_actions(env, make(env.spec.name, num_envs=E).reset(), rng)

    with refused("call-order", "reset()"):
        env.step(actions)


def test_missing_head_is_refused_by_name(env: Environment):
    env.reset()

    with refused("invalid-action", env.spec.heads[0].name):
        env.step({})


def test_every_baseline_plays(env: Environment):
    observation, spec = env.reset(), env.spec
    for baseline in baselines(spec.name):
        policy = make_baseline(spec.name, baseline.name)
        rows = observation.side(slice(0, spec.num_agents))
        state = policy.initial_state(len(rows.values))
        actions, _ = policy.act(rows, state, torch.ones_like(rows.active), torch.Generator().manual_seed(0))
        env.step({name: action.unflatten(0, (E, -1)) for name, action in actions.items()})


def test_memory_of_a_match_is_counted_and_small(env: Environment):
    memory = measure_memory(env)

    floats = env.spec.num_agents * env.spec.observation_size
    assert memory.observation > 4 * floats
    assert (memory.state > 0) is supports(env, CountsBytes)
    assert memory.state + memory.observation < 200_000


def test_signature_follows_the_rules(env: Environment):
    spec = env.spec

    assert spec.signature == make(spec.name, num_envs=1, seed=9).spec.signature
    game = spec.game if isinstance(spec, RoundsSpec) else spec
    assert spec.signature == game.signature
    assert len({game.signature, replace(game, rules={}).signature, replace(game, name="other").signature}) == 3


@pytest.mark.holds("T16")
def test_declared_spec_equals_the_spec_of_an_instance(env: Environment):
    assert declare(env.spec.name) == env.spec


@pytest.mark.integration
def test_missing_game_library_error_names_the_extra():
    script = """
import sys
sys.modules["gymnasium"] = None
from arena.environments.registry import declare
for game in ("pettingzoo:connect_four_v3", "mygame:make"):
    try:
        declare(game)
    except ValueError as error:
        print(error)
"""
    told = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    needs = "needs gymnasium, which is not installed: pip install 'echelon-league"
    assert told.splitlines() == [
        f"pettingzoo:connect_four_v3 {needs}[pettingzoo]'",
        f"mygame:make {needs}[vector]'",
    ]


def test_unknown_names_are_refused_with_the_known_ones():
    assert {"mech-company", "mech-duel", "mech-pack", "recall", "rps"} <= {*names()}
    with refused("unknown-environment", "chess", ", ".join(names())):
        make("chess", num_envs=1)
    with refused("unknown-environment", "chess"):
        declare("chess")
    with refused("unknown-policy", "bob", "mech-duel", "random", "lieutenant-half"):
        make_baseline("mech-duel", "bob")


def test_environment_that_is_not_installed_still_has_a_random_player():
    assert [baseline.name for baseline in baselines("chess")] == ["random"]
