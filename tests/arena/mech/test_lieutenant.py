import torch

from arena.environments import make, make_baseline
from arena.match import play_series


def test_lieutenant_beats_random_play_nearly_always():
    lieutenant, random = (make_baseline("mech-duel", name) for name in ("lieutenant", "random"))

    series = play_series("mech-duel", lieutenant, random, matches=200, seed=0)

    assert series.score >= 0.95


def test_neither_side_is_better():
    lieutenant = make_baseline("mech-duel", "lieutenant")

    series = play_series("mech-duel", lieutenant, lieutenant, matches=20, seed=0)

    assert {match.score for match in series.matches} == {0.5}
    assert series.reasons == {"elimination": 20}


def test_lieutenant_turns_to_its_enemy_and_vents_when_hot(duel, orders):
    env = duel([(0.0, 0.0), (0.0, 10.0)], [(1.0, 0.0), (1.0, 0.0)], heat=[80.0, 0.0])
    seen = env.step(orders()).observation.side(slice(0, 1))

    actions, _ = make_baseline("mech-duel", "lieutenant").act(seen, (), ~seen.active, torch.Generator())

    assert actions["move"][0, 3].item() == 1.0, "the enemy is to the left"
    assert actions["trigger"][0].tolist() == [False, True, False, False, False], "hot, and the enemy not ahead"


def test_lieutenant_backs_off_from_whoever_is_too_close(duel, orders):
    env = duel([(-2.0, 0.0), (2.0, 0.0)], [(1.0, 0.0), (-1.0, 0.0)])
    seen = env.step(orders()).observation.side(slice(0, 1))

    actions, _ = make_baseline("mech-duel", "lieutenant").act(seen, (), ~seen.active, torch.Generator())

    assert actions["move"][0, 0].item() < 0.0
    assert actions["trigger"][0].tolist() == [True, False, False, True, False]


def test_lieutenant_goes_to_the_zone_and_stays():
    env = make("mech-duel", num_envs=8)
    observation = env.reset(torch.arange(8))
    lieutenant, rng = make_baseline("mech-duel", "lieutenant"), torch.Generator()
    env.arrays["hp"][:, 1] = 1e6
    for _ in range(40):
        home, _ = lieutenant.act(observation.side(slice(0, 1)), (), torch.zeros(8, dtype=torch.bool), rng)
        observation = env.step(
            {name: torch.stack([action, torch.zeros_like(action)], dim=1) for name, action in home.items()}
        ).observation

    in_zone = observation.values[:, 0, 6]
    assert bool((in_zone == 1.0).all())
    assert bool((env.arrays["velocity"][:, 0].norm(dim=-1) < 1.0).all())
