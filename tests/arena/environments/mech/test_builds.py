"""Builds: chosen in the first decision, and hidden from enemies until they are recognised."""

from dataclasses import replace

import pytest
import torch
from mech_play import RandomOrders, idle
from refused import refused

from arena.environments.base import Observation
from arena.environments.mech.config.constants import DRAG, MOVES
from arena.environments.mech.config.rewards import RewardWeights
from arena.environments.mech.config.rules import Build, MechRules
from arena.environments.mech.config.scenario import BUILDS, LONG_DUEL, PRESETS, MechConfig
from arena.environments.mech.config.weapons import TRIGGERS, WEAPONS
from arena.environments.mech.env import MechEnvironment
from arena.environments.mech.observation_spec import make_spec

DUEL = PRESETS["mech-duel-2"]
PAIRS = [(home, away) for home in range(len(BUILDS)) for away in range(len(BUILDS))]
PACK = MechConfig("pack", (("medium", "medium"),), map_side=40, limit_s=60.0, rules=LONG_DUEL)


def make(config: MechConfig = DUEL, rows: int = len(PAIRS)) -> MechEnvironment:
    env = MechEnvironment(config, RewardWeights(), num_envs=rows, device="cpu", seed=1)
    env.reset(torch.arange(rows))
    return env


def choose(env: MechEnvironment, builds: list[tuple[int, ...]]) -> Observation:
    """Play the first decision."""
    actions = idle(env.spec, env.num_envs)
    actions["build"].copy_(torch.tensor(builds))
    return env.step(actions).observation


def place(env: MechEnvironment, distance: float) -> None:
    """Let the mechs look at each other."""
    for mech, x, ahead in ((0, -distance / 2, 1.0), (1, distance / 2, -1.0)):
        env.arrays["position"][:, mech] = torch.tensor([x, 0.0, 0.0])
        env.arrays["heading"][:, mech] = torch.tensor([ahead, 0.0])


def block(env: MechEnvironment, observation: Observation, name: str) -> torch.Tensor:
    return observation.values[..., env.spec.layout[name]]


def one_hot(*builds: int) -> list[list[float]]:
    return torch.eye(len(BUILDS))[list(builds)].tolist()


def test_only_compositions_with_several_builds_choose_and_observe_them() -> None:
    for config, has in ((DUEL, True), (replace(DUEL, rules=MechRules()), False), (PRESETS["mech-pack"], False)):
        spec = make_spec(config)
        assert ("build" in {head.name for head in spec.heads}) is has
        assert ({"build", "contact_builds"} <= spec.layout.keys()) is has


def test_a_build_sets_hit_points_speed_and_weapons() -> None:
    env = make()
    choose(env, PAIRS)
    place(env, 7.0)
    env.step(idle(env.spec, env.num_envs))
    actions = idle(env.spec, env.num_envs)
    actions["trigger"].fill_(True)
    actions["trigger"][..., TRIGGERS.index("special")] = False
    actions["move"][..., MOVES.index("strafe")] = 1.0
    hp = env.arrays["hp"].clone()

    env.step(actions)

    fired = env.arrays["raw_damage"] > 0.0
    speed = env.arrays["velocity"][..., :2].norm(dim=-1)
    for row, pair in enumerate(PAIRS):
        for mech, build in enumerate(pair):
            built = env.config.with_build(env.config.team[0], build)
            assert hp[row, mech].item() == pytest.approx(built.hp)
            assert speed[row, mech].item() == pytest.approx(DRAG * built.max_speed, rel=1e-4)
            used = {WEAPONS[weapon].name for weapon in fired[row, mech].nonzero().flatten()}
            assert used <= {name for name, _ in BUILDS[build].weapons}


def test_a_build_is_chosen_in_the_first_decision_only() -> None:
    env = make()
    opening = env.reset()
    assert opening.masks["build"].all()
    assert not block(env, opening, "build").any()
    for observation in (choose(env, PAIRS), choose(env, [(2, 0)] * len(PAIRS))):
        assert observation.masks["build"].float().mean(dim=(0, 1)).tolist() == [1.0, 0.0, 0.0]
        for row, pair in enumerate(PAIRS):
            assert block(env, observation, "build")[row].tolist() == one_hot(*pair)


def test_the_next_match_has_a_choice_again() -> None:
    env = make()
    choose(env, PAIRS)
    env.arrays["decision"].fill_(env.config.max_decisions - 1)
    opening = choose(env, PAIRS)
    assert opening.masks["build"].all()
    assert not block(env, opening, "build").any()
    assert env.arrays["hp"].unique().tolist() == [env.config.with_build(env.config.team[0], 0).hp]


@pytest.mark.parametrize("option", [-1, len(BUILDS), 1 << 40])
def test_an_unknown_option_is_the_first_build(option: int) -> None:
    env = make(rows=1)
    assert block(env, choose(env, [(option, 1)]), "build")[0].tolist() == one_hot(0, 1)


def test_the_build_of_an_enemy_is_hidden_until_it_is_near_and_known_from_then_on() -> None:
    env = make()
    shown = []
    for step, distance in enumerate((30.0, LONG_DUEL.recognition_range - 0.5, 30.0)):
        place(env, distance)
        observation = choose(env, PAIRS) if not step else env.step(idle(env.spec, len(PAIRS))).observation
        shown.append(block(env, observation, "contact_builds"))
        assert (block(env, observation, "contact_mask") == 1.0).all()
    assert not shown[0].any()
    for row, (home, away) in enumerate(PAIRS):
        assert shown[1][row].tolist() == one_hot(away, home)
    assert torch.equal(shown[1], shown[2])


def test_smoke_hides_the_build_of_an_enemy() -> None:
    env = make(rows=1)
    choose(env, [(1, 2)])
    place(env, 16.0)
    env.arrays["smoke_left"][0, 0, 0] = 10
    env.arrays["smoke_centre"][0, 0, 0] = torch.tensor([0.0, 0.0, 2.0])
    hidden = env.step(idle(env.spec)).observation
    env.arrays["smoke_left"].zero_()
    clear = env.step(idle(env.spec)).observation
    assert not block(env, hidden, "contact_builds").any()
    assert block(env, clear, "contact_builds")[0].tolist() == one_hot(2, 1)


def test_pack_mates_know_their_builds() -> None:
    env = make(PACK, rows=1)
    observation = choose(env, [(0, 1, 2, 0)])
    assert block(env, observation, "pack_builds")[0].tolist() == one_hot(1, 0, 0, 2)


def test_what_a_mech_knows_is_true_and_never_forgotten() -> None:
    env = make(PACK, rows=16)
    play, before = RandomOrders(env.spec, list(range(16))), torch.zeros_like(env.arrays["recognised"])
    for decision in range(40):
        actions = play.draw()
        actions["move"][..., MOVES.index("forward")].abs_()
        step = env.step(actions)
        going = ~(step.terminated | step.truncated)
        if not decision:
            chosen = actions["build"].clone()
        own = block(env, step.observation, "build")
        alive = step.observation.active & going.unsqueeze(-1)
        assert torch.equal(own.argmax(dim=-1)[alive], chosen[alive])
        assert (own.sum(dim=-1)[alive] == 1.0).all()
        contacts = block(env, step.observation, "contact_builds").unflatten(-1, (-1, len(BUILDS)))
        for row, mech, slot, build in contacts.nonzero().tolist():
            other = env.arrays["contact"][row, mech, slot]
            assert other >= 0
            assert chosen[row, other] == build
        assert (env.arrays["recognised"] >= before)[going].all()
        before = env.arrays["recognised"].clone()
        if not going.all():
            break
    assert before.any()


@pytest.mark.parametrize(
    ("builds", "values"),
    [
        ((("tank", BUILDS),), ("'tank'", "medium")),
        ((("medium", ()),), ("'medium': 0",)),
        ((("medium", (Build("odd", (("lazer", "primary"),)),)),), ("'odd'", "'lazer'", "laser")),
        ((("medium", (Build("odd", (("laser", "special"),)),)),), ("'odd'", "'special'", "tertiary")),
        ((("medium", (Build("odd", (), hp_factor=0.0),)),), ("'odd'", "hp_factor", 0.0)),
        ((("medium", (Build("odd", (), speed_factor=-1.0),)),), ("'odd'", "speed_factor", -1.0)),
    ],
)
def test_builds_that_cannot_be_played_are_rejected(builds: tuple, values: tuple[object, ...]) -> None:
    with refused("invalid-composition", "mine", *values):
        MechConfig("mine", (("medium",),), map_side=40, limit_s=60.0, rules=MechRules(builds=builds))


def test_all_classes_of_a_team_have_equally_many_builds() -> None:
    with refused("invalid-composition", "'medium': 3", "'scout': 1"):
        MechConfig("mine", (("medium", "scout"),), map_side=40, limit_s=60.0, rules=LONG_DUEL)
