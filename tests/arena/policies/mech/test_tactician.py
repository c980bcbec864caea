from dataclasses import replace

import numpy as np
import pytest
import torch

from arena.environments.mech.config.constants import DECISION_S
from arena.environments.mech.config.scenario import PRESETS
from arena.environments.mech.config.weapons import TRIGGERS
from arena.environments.mech.env import MechEnvironment, make_mech
from arena.policies.mech.tactician import Tactician
from arena.policies.mech.tactics import CHOICES, NEVER, PLAIN, Tactic, mutate, parameters_of, random_tactic
from arena.policies.protocol import Policy

DUEL = PRESETS["mech-duel"]


def play(env: MechEnvironment, home: Policy, away: Policy, decisions: int) -> list[dict[str, torch.Tensor]]:
    """Actions of both sides, home first, decision by decision; matches that end begin again."""
    observation, rng = env.reset(), torch.Generator().manual_seed(1)
    starts = torch.ones(env.num_envs, dtype=torch.bool)
    rows = [observation.side(env.spec.side(away=away)).active.shape[0] for away in (False, True)]
    states = [policy.initial_state(count) for policy, count in zip((home, away), rows, strict=True)]
    played = []
    for _ in range(decisions):
        chosen = []
        for side, policy in enumerate((home, away)):
            seen = observation.side(env.spec.side(away=bool(side)))
            agents = len(seen.active) // env.num_envs
            actions, states[side] = policy.act(seen, states[side], starts.repeat_interleave(agents), rng)
            chosen.append({name: value.view(env.num_envs, agents, *value.shape[1:]) for name, value in actions.items()})
        together = {name: torch.cat([side[name] for side in chosen], dim=1) for name in chosen[0]}
        step = env.step(together)
        played.append(together)
        observation, starts = step.observation, step.over
    return played


def duels(tactics: list[Tactic], decisions: int = 30) -> tuple[MechEnvironment, list[dict[str, torch.Tensor]]]:
    """Each tactic at home against a plain one."""
    env = make_mech("mech-duel", num_envs=len(tactics), device="cpu", seed=3)
    return env, play(env, Tactician(DUEL, tactics), Tactician(DUEL, [PLAIN] * len(tactics)), decisions)


def test_every_row_plays_its_own_tactic():
    together = duels([PLAIN, Tactic(distance=0.0, hunts=True), Tactic(wait_s=15.0)])[1]
    alone = duels([PLAIN])[1]
    for batch, single in zip(together, alone, strict=True):
        for name, action in single.items():
            assert torch.equal(batch[name][:1], action), name
    assert not torch.equal(together[10]["move"][0], together[10]["move"][1])


@pytest.mark.parametrize(
    ("tactic", "trigger"),
    [
        (Tactic(primary=False), "primary"),
        (Tactic(tertiary=False), "tertiary"),
        (Tactic(vent_above=NEVER), "vent"),
        (PLAIN, "special"),
    ],
)
def test_a_trigger_that_a_tactic_does_without_is_never_pulled(tactic: Tactic, trigger: str):
    pulled = torch.stack([each["trigger"][:, 0, TRIGGERS.index(trigger)] for each in duels([tactic])[1]])
    assert not pulled.any()


def test_smoke_is_launched_at_a_target_in_sight():
    pulled = torch.stack(
        [each["trigger"][:, 0, TRIGGERS.index("special")] for each in duels([Tactic(smoke_within=40)])[1]]
    )
    assert pulled.any()


def test_a_waiting_tactic_stays_outside_the_zone_until_its_time():
    env = make_mech("mech-duel", num_envs=8, device="cpu", seed=3)
    waiting = [Tactic(wait_s=10.0, primary=False, tertiary=False)] * 8
    reach: list[torch.Tensor] = []
    env.on_decided.append(
        lambda: reach.append(env.arrays["position"][:, 0, :2].norm(dim=-1) - env.arrays["zone_radius"])
    )
    play(env, Tactician(DUEL, waiting), Tactician(DUEL, waiting), round(20.0 / DECISION_S))
    outside = torch.stack(reach)
    assert outside[: round(10.0 / DECISION_S)].min() > 5.0
    assert (outside[-1] < 0.0).all()


def test_a_kiter_keeps_its_distance():
    env = make_mech("mech-duel", num_envs=8, device="cpu", seed=3)
    harmless = {"primary": False, "tertiary": False}
    apart: list[torch.Tensor] = []
    env.on_decided.append(
        lambda: apart.append((env.arrays["position"][:, 0] - env.arrays["position"][:, 1]).norm(dim=-1))
    )
    kiters = [Tactic(distance=9.5, hunts=True, **harmless)] * 8
    play(env, Tactician(DUEL, kiters), Tactician(DUEL, [Tactic(**harmless)] * 8), 80)
    assert (torch.stack(apart[-20:]) - 9.5).abs().max() < 3.0


def test_a_leading_tactic_chooses_no_target_and_hits_a_strafer_more_often():
    damage = []
    for leads in (False, True):
        env = make_mech("mech-duel", num_envs=32, device="cpu", seed=3)
        total = torch.zeros(2)
        env.on_decided.append(lambda total=total, env=env: total.add_(env.arrays["raw_damage"].sum(dim=(0, 2))))
        shooter = [Tactic(distance=11.5, hunts=True, primary=False, leads=leads)] * 32
        strafer = [Tactic(distance=11.5, hunts=True, strafe=1.0, weave_s=60.0, primary=False, tertiary=False)] * 32
        played = play(env, Tactician(DUEL, shooter), Tactician(DUEL, strafer), 60)
        assert bool(torch.stack([each["target"][:, 0] for each in played]).any()) is not leads
        damage.append(float(total[0]))
    assert damage[1] > 1.5 * damage[0]


def test_tactics_survive_json_and_name_what_is_special():
    tactic = replace(PLAIN, strafe=1.0, hunts=True, primary=False)
    assert Tactic.from_dict(tactic.to_dict()) == tactic
    assert str(tactic) == "strafe 1, hunts, not primary"
    assert str(PLAIN) == "plain"


def test_candidates_take_their_values_from_the_choices():
    rng, names = np.random.default_rng(1), parameters_of(DUEL)
    tactics = [random_tactic(names, rng) for _ in range(200)]
    assert all(getattr(each, name) in CHOICES[name] for each in tactics for name in CHOICES)
    assert {each.distance for each in tactics} == set(CHOICES["distance"])
    assert all(each.jams and each.secondary for each in tactics)
    for each in tactics:
        other = mutate(each, names, rng)
        assert sum(getattr(other, name) != getattr(each, name) for name in CHOICES) <= 3
