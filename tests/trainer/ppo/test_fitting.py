"""Learners whose networks fit what their game shows, and those of a user's own modules."""

import json

import pytest
import torch
from loss_inputs import inputs
from refused import assert_names, refused
from small_runs import logged, same_results, spooled

from arena.environments import declare
from arena.errors import ArenaError
from arena.play.series import play_series, resolve_policy
from arena.policies import ActorCritic, Architecture, CoreKind
from arena.policies import checkpoint as checkpoints
from arena.policies.nn.user_module import ALLOWED_MODULES_VARIABLE
from trainer.config.algorithm import MEMBER_SIZE
from trainer.config.loading import resolve
from trainer.errors import ConfigError
from trainer.opponents.checkpoint_cache import CheckpointCache
from trainer.opponents.pool import OpponentPool
from trainer.ppo.extra_losses import NextObservationLoss
from trainer.ppo.learner import Learner
from trainer.ppo.targets.normalization import ObservationNormalizer
from trainer.runtime.benchmark.bench import Bench, SyntheticSpec
from trainer.runtime.dry_run import estimate_run

GAME = "space_games:bazaar"
BAZAAR = declare(GAME)
PLACES = BAZAAR.layout
SMALL = ["environment.num_envs=4", "rollout.num_steps=16", "rollout.bptt_horizon=8", "network.encoder_sizes=[16]"]
SHORT = [*SMALL, "network.recurrent_size=16", "league.lease_budget=2", "league.snapshot_every_steps=64"]
REMEMBERER = ["network.module=space_games:Rememberer", "network.core=module"]
NETWORKS = {
    "all kinds": [],
    "places": ["network.member_size=0", "network.image_channels=0"],
    "a module for the encoder": ["network.module=space_games:Reader"],
    "a module with a memory": REMEMBERER,
}
CPU = torch.device("cpu")


def config_of(*settings):
    return resolve(GAME, None, [*SHORT, *settings])


@pytest.mark.parametrize("settings", NETWORKS.values(), ids=NETWORKS)
def test_rollout_and_update_agree_in_every_chunk(settings):
    still = ["optimizer.learning_rate=0.0", "optimizer.learning_rate_final=0.0"]
    assert max(Bench(config_of(*settings, *still), SyntheticSpec()).ratio_errors()) < 1e-5


@pytest.mark.parametrize(
    "settings", [NETWORKS["all kinds"], NETWORKS["a module with a memory"]], ids=["all kinds", "a module"]
)
def test_short_run_plays_its_snapshots_and_can_be_loaded(worker_of, client, tmp_path, monkeypatch, settings):
    worker = worker_of(client, config_of(*settings, "run.total_timesteps=192", "environment.self_play=0.25"))
    worker.run()
    assert worker.learner.steps == 192
    matches = logged(client, GAME)
    assert same_results(spooled(tmp_path), matches)
    assert len(matches) >= 4
    assert client.players(GAME, kind="snapshot").items
    for name in (ALLOWED_MODULES_VARIABLE,) if settings else ():
        with refused("module-not-allowed", "space_games:Rememberer"):
            resolve_policy(GAME, str(tmp_path / "run"))
        monkeypatch.setenv(name, "space_games:Rememberer")
    trained, random = resolve_policy(GAME, str(tmp_path / "run")), resolve_policy(GAME, "random")
    assert len(play_series(GAME, trained, random, matches=2, seed=0).matches) == 2


def test_every_kind_of_learner_is_restored_from_its_state():
    for settings in NETWORKS.values():
        one, other = (Learner(config_of(*settings, f"run.seed={seed}"), BAZAAR) for seed in (0, 1))
        rollout = one.allocate()
        rollout.active.fill_(True)
        rollout.action_mask.fill_(True)
        one.learn(rollout, lambda: False)
        other.restore(one.tensors(), one.steps, one.updates)
        for name, tensor in one.network.state_dict().items():
            assert torch.equal(tensor, other.network.state_dict()[name]), name


def test_images_and_choices_keep_their_declared_scale_and_all_else_is_measured():
    for module in ("", "space_games:Reader"):
        network = ActorCritic(Architecture.of(BAZAAR, member_size=4, module=module))
        normalizer = ObservationNormalizer(network.architecture, 0.01, CPU)
        values = 50.0 + 9.0 * torch.randn(300, BAZAAR.observation_size)
        normalizer.update(values.unsqueeze(1), torch.ones(len(values), 1, dtype=torch.bool))
        normalizer.write_to(network)
        mean, std = network.observation_mean, network.observation_std
        assert torch.equal(std[PLACES["picture"]], torch.full((243,), 255.0))
        assert (float(std[PLACES["card"]]), float(mean[PLACES["card"]])) == (1.0, 0.0)
        assert not mean[PLACES["picture"]].any()
        torch.testing.assert_close(mean[PLACES["purse.0"]], values[:, PLACES["purse.0"]].mean(dim=0))
        torch.testing.assert_close(std[PLACES["away"]], values[:, PLACES["away"]].std(dim=0, correction=0))
        assert (float(std[PLACES["units_mask"]][0]) == 1.0) is bool(module), "a module gets booleans"


def test_choices_are_not_predicted_as_quantities():
    network = ActorCritic(Architecture.of(BAZAAR, encoder_sizes=(8,), recurrent_size=8))
    loss = NextObservationLoss(network)
    values, counts = torch.rand(2, BAZAAR.observation_size), torch.ones(2, dtype=torch.bool)
    other = values.clone()
    other[:, PLACES["card"]] = 77.0
    first, second = (loss(*inputs(network, each, torch.zeros(2, 8), [2], counts)) for each in (values, other))
    assert torch.equal(first, second)


def test_sets_have_an_encoder_unless_the_preset_turns_it_off():
    assert Learner(config_of(), BAZAAR).network.architecture.sets[0].width == MEMBER_SIZE
    assert not Learner(config_of("network.member_size=0"), BAZAAR).network.architecture.sets
    for game in ("mech-duel", "mech-pack", "mech-company"):
        assert resolve(game, None, []).network.member_size == 0


@pytest.mark.parametrize(
    ("settings", "value"),
    [
        (["network.module=space_games:Gossiping", "network.core=module"], "space_games:Gossiping"),
        (["network.core=module"], "network.module"),
        (["network.module=nonsense"], "nonsense"),
        (["network.image_channels=-1"], "network.image_channels"),
    ],
)
def test_networks_that_there_are_not_are_refused_at_start(settings, value):
    with pytest.raises((ArenaError, ConfigError)) as error:
        estimate_run(config_of(*settings))
    assert_names(str(error.value), value)


def test_a_dry_run_counts_the_parameters_of_each_encoder():
    parameters = estimate_run(config_of()).parameters
    assert parameters["embeddings"] == 100 * 16
    assert parameters["images"] == 16 * (3 * 9 + 1)
    assert parameters["sets"] == MEMBER_SIZE * (5 + 1)


@pytest.fixture
def pool_of(tmp_path):
    def make_pool(data, *modules):
        return OpponentPool(
            BAZAAR,
            lambda sha256: data,
            CheckpointCache(tmp_path / "cache", 2**24),
            memory_limit_bytes=2**24,
            device="cpu",
            modules=modules,
        )

    return make_pool


def test_opponents_that_need_code_are_refused_unless_the_user_named_it(pool_of):
    architecture = Architecture.of(BAZAAR, core=CoreKind.MODULE, module="space_games:Rememberer")
    data = checkpoints.encode(ActorCritic(architecture), BAZAAR)
    with refused("unsupported-opponent", "an0pp", "space_games:Rememberer"):
        pool_of(data, "space_games:Reader").resolve("an0pp", "one")
    assert pool_of(data, "space_games:Rememberer").resolve("an0pp", "one").policy.network.core.state_size == 6


def test_the_header_of_a_checkpoint_names_the_module_that_it_needs():
    network = Learner(config_of(*REMEMBERER), BAZAAR).network
    header = checkpoints._header(checkpoints.encode(network, BAZAAR))["__metadata__"]
    assert json.loads(header["architecture"])["module"]["path"] == "space_games:Rememberer"
