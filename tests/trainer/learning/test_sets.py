"""A learner whose network reads sets."""

import pytest
import torch
from refused import refused

from arena.environments import declare
from arena.policies import ActorCritic, Architecture
from trainer.config.loading import resolve
from trainer.ppo.learner import Learner
from trainer.ppo.targets.normalization import ObservationNormalizer
from trainer.runtime.benchmark.bench import Bench, SyntheticSpec

SMALL = ["environment.num_envs=8", "rollout.num_steps=32", "network.encoder_sizes=[16]", "network.recurrent_size=16"]
SETS = [*SMALL, "network.member_size=8"]
CPU = torch.device("cpu")
PACK = declare("mech-pack")


def test_rollout_and_update_agree_on_teams_that_are_read_as_sets():
    still = ["optimizer.learning_rate=0.0", "optimizer.learning_rate_final=0.0"]
    errors = Bench(resolve("mech-pack", None, [*SETS, *still]), SyntheticSpec()).ratio_errors()
    assert max(errors) < 1e-5


@pytest.mark.holds("G5")
def test_members_share_their_statistics_and_empty_places_do_not_count():
    network = ActorCritic(Architecture.of(PACK, encoder_sizes=(4,), recurrent_size=4, member_size=4))
    normalizer = ObservationNormalizer(network.architecture, 0.01, CPU)
    places = PACK.layout
    values = torch.full((50, PACK.observation_size), 1e6)
    there = torch.rand(50, 4) < 0.5
    values[:, places["pack_mask"]] = there.float()
    told = torch.randn(50, 4, 13) + torch.arange(13)
    pack = values[:, places["pack"]].view(50, 4, 13)
    values[:, places["pack"]] = torch.where(there.unsqueeze(-1), told, pack).flatten(1)
    for part in values.split(20):
        normalizer.update(part.unsqueeze(1), torch.ones(len(part), 1, dtype=torch.bool))

    normalizer.write_to(network)

    mean = network.observation_mean[places["pack"]].view(4, 13)
    std = network.observation_std[places["pack"]].view(4, 13)
    for place in range(4):
        torch.testing.assert_close(mean[place], told[there].mean(dim=0))
        torch.testing.assert_close(std[place], told[there].std(dim=0, correction=0))
    assert network.observation_mean[places["hull"]].tolist() == pytest.approx([1e6] * 7)


def test_the_statistics_of_members_are_saved_and_restored():
    one, other = (Learner(resolve("mech-pack", None, [*SETS, f"run.seed={seed}"]), PACK) for seed in (0, 1))
    one._observations.update(torch.rand(20, 5, PACK.observation_size), torch.ones(20, 5, dtype=torch.bool))
    other.restore(one.tensors(), 0, 0)
    for mine, theirs in zip(one._observations.members, other._observations.members, strict=True):
        assert float(theirs.count) > 0.0
        assert torch.equal(mine.mean, theirs.mean)


def test_a_game_without_sets_has_none_to_read():
    with refused("invalid-setting", "network.member_size", 8, "recall", 0):
        Learner(resolve("recall", None, SETS), declare("recall"))
