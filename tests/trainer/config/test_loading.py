import tomllib

import pytest
from refused import refused

from arena.environments import names
from arena.environments.mech.config.rewards import RewardWeights
from arena.environments.mech.config.scenario import PRESETS
from arena.environments.registry import declare
from arena.policies import CoreKind
from trainer.config.loading import (
    RENAMED,
    list_settings,
    parse_assignments,
    preset,
    resolve,
    sections,
    setting_schemas,
    to_toml,
    validate,
)
from trainer.errors import ConfigError


def test_defaults_are_a_valid_configuration_for_mech_duel():
    config = resolve(None, None, [])
    assert config.environment.name == "mech-duel"
    assert config.ppo.gamma == 0.995
    assert config.rollout.num_steps % config.rollout.bptt_horizon == 0


@pytest.mark.parametrize("environment", names())
def test_every_built_in_environment_has_a_preset(environment):
    assert preset(environment)["environment"]["name"] == environment
    assert resolve(environment, None, []).environment.name == environment


@pytest.mark.holds("K2")
@pytest.mark.parametrize("environment", PRESETS)
def test_presets_have_the_discount_of_the_reward_shaping(environment):
    assert resolve(environment, None, []).ppo.gamma == RewardWeights().gamma


@pytest.mark.parametrize("environment", names())
def test_presets_name_existing_heads(environment):
    settings = resolve(environment, None, []).ppo
    assert {*settings.ent_coef_per_head, *settings.entropy_floors} <= {head.name for head in declare(environment).heads}


@pytest.mark.holds("B10", "S11")
@pytest.mark.parametrize("environment", [*names(), "my-game"])
def test_recurrent_presets_have_at_most_two_epochs(environment):
    """Their stored states go stale as weights move."""
    config = resolve(environment, None, [])
    assert config.ppo.update_epochs <= 2 or config.network.core is CoreKind.FEEDFORWARD


@pytest.mark.parametrize(
    ("share", "num_envs", "rows"), [(0.95, 128, 122), (0.95, 8, 7), (0.8, 2, 1), (0.99, 1, 0), (1.0, 8, 8), (0.0, 8, 0)]
)
def test_self_play_leaves_one_environment_unless_its_share_is_1(share, num_envs, rows):
    settings = validate({"environment": {"self_play": share, "num_envs": num_envs}}).environment
    assert len(settings.self_play_rows) == rows


@pytest.mark.holds("D5", "E2", "E5", "S8", "S12", "S13")
def test_defaults_agree_with_the_checklist():
    """Where they contradict each other tests/checklist.md says which one was followed."""
    config = validate({})
    assert (config.ppo.clip_range_vf, config.ppo.huber_delta, config.ppo.vf_coef) == (0.0, 0.0, 0.5)
    assert (config.ppo.kl_stop, config.ppo.target_kl) == (1.5, 0.015)
    assert (config.ppo.normalized_ent_coef, config.ppo.normalized_ent_coef_final) == (0.05, 0.01)
    assert (config.optimizer.critic_weight_decay, config.normalization.reward_clip) == (0.0, 10.0)
    assert config.network.initial_log_std == -0.5


@pytest.mark.parametrize("environment", [*names(), "openspiel:kuhn_poker", "my-game"])
def test_the_gpu_preset_applies_to_every_environment(environment):
    plain, config = resolve(environment, None, []), resolve(environment, None, [], overlay="gpu")
    assert (config.run.device, config.ppo.precision, config.ppo.compile) == ("cuda", "bfloat16", "auto")
    assert config.environment.num_envs >= plain.environment.num_envs
    assert (config.network, config.ppo.gamma) == (plain.network, plain.ppo.gamma)


@pytest.mark.parametrize("environment", ["mech-duel", "mech-duel-2", "mech-pack", "mech-company"])
def test_the_gpu_preset_of_a_mech_game_plays_thousands_of_matches_and_as_many_updates(environment):
    plain, config = resolve(environment, None, []), resolve(environment, None, [], overlay="gpu")
    assert 4096 <= config.environment.num_envs <= 16384
    collected = config.rollout.num_steps * config.environment.num_envs
    assert 900 < config.schedules.horizon_steps / collected < 1000
    assert 25 < config.league.snapshot_every_steps / collected < 35
    assert config.ppo.num_minibatches > plain.ppo.num_minibatches


@pytest.mark.parametrize(("device", "backend"), [("cpu", "none"), ("cuda", "inductor")])
def test_updates_are_compiled_automatically_on_a_gpu_only(device, backend):
    config = resolve("rps", None, [f"run.device={device}"])
    assert config.ppo.compile.for_device(config.run.device) == backend
    for chosen in ("none", "inductor", "aot_eager"):
        assert resolve("rps", None, [f"ppo.compile={chosen}"]).ppo.compile.for_device(device) == chosen


def test_the_gpu_preset_wins_over_a_saved_run_and_loses_to_set():
    saved = {"environment": {"name": "mech-duel", "num_envs": 8}, "run": {"device": "cpu"}}
    config = resolve(None, None, ["ppo.compile=none"], saved, "gpu")
    assert (config.run.device, config.environment.num_envs, config.ppo.compile) == ("cuda", 16384, "none")


def test_an_unknown_hardware_preset_is_refused_by_name():
    with refused("invalid-setting", "tpu"):
        resolve("rps", None, [], overlay="tpu")


def test_an_environment_without_a_preset_takes_the_defaults():
    defaults = validate({"environment": {"name": "my-game"}})
    assert resolve("my-game", None, []) == defaults


def test_a_game_preset_overrides_its_family_preset():
    tic_tac_toe, kuhn = (resolve(f"openspiel:{game}", None, []) for game in ("tic_tac_toe", "kuhn_poker"))
    assert tic_tac_toe.network.core == "feedforward" != kuhn.network.core
    assert tic_tac_toe.ppo.gamma == kuhn.ppo.gamma == 1.0, "what it does not say is its family's"
    assert resolve("openspiel:tic_tac_toe:rounds=4", None, []).league.lease_budget == 4
    assert resolve("openspiel:kuhn_poker(players=2)", None, []).network == kuhn.network


@pytest.mark.parametrize("role", ["main_exploiter", "league_exploiter"])
def test_role_settings_of_a_preset_apply_to_mains_only(role):
    assert resolve("openspiel:tic_tac_toe", None, []).role.uniform_share == 0.5
    assert resolve("openspiel:tic_tac_toe", None, [f"league.role={role}"]).role.uniform_share is None


def test_file_wins_over_preset_and_set_wins_over_file(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('[environment]\nname = "rps"\nnum_envs = 5\n[ppo]\ngamma = 0.5\nclip_coef = 0.1\n')
    config = resolve(None, file, ["ppo.gamma=0.25", "network.core=feedforward"])
    assert (config.environment.name, config.environment.num_envs) == ("rps", 5)
    assert (config.ppo.gamma, config.ppo.clip_coef) == (0.25, 0.1)
    assert config.ppo.normalized_ent_coef == preset("rps")["ppo"]["normalized_ent_coef"]


def test_the_environment_option_wins_over_the_file(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('[environment]\nname = "rps"\n')
    assert resolve("recall", file, []).environment.name == "recall"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("ppo.gama=0.9", ("ppo.gama", "ppo.gamma")),
        ("poo.gamma=0.9", ("poo", "ppo")),
        ("ppo.gamma=1.7", ("ppo.gamma", 1.7, 0, 1, 0.995)),
        ("ppo.clip_coef=1", ("ppo.clip_coef", 1, 0, 0.2)),
        ("ppo.target_kl=0", ("ppo.target_kl", 0, 0.015)),
        (
            "ppo.update_epochs=many",
            ("ppo.update_epochs", "many", 1, 100, 2),
        ),
        ("ppo.update_epochs=1.5", ("ppo.update_epochs", 1.5, 1, 100)),
        ("run.seed=-1", ("run.seed", -1, 0, 2, 63)),
        ("run.deterministic=maybe", ("run.deterministic", "maybe")),
        ("ppo.precision=half", ("half", "float32", "bfloat16")),
        ("ppo.compile=turbo", ("ppo.compile", "turbo", "aot_eager")),
        ("run.device=3", ("run.device", 3)),
        ("environment.name=''", ("environment.name",)),
        ("gamma=0.9", ("gamma=0.9", "section.key=value")),
        ("ppo.gamma", ("ppo.gamma",)),
        (
            "rollout.bptt_horizon=7",
            ("rollout.num_steps", 64, "rollout.bptt_horizon", 7),
        ),
        ("ppo.ent_coef_per_head={comm = -1}", ("ppo.ent_coef_per_head.comm", -1, 0)),
        (
            "ppo.ent_coef_per_head=3",
            ("ppo.ent_coef_per_head", 3, "NAME", "VALUE"),
        ),
        ("ppo.burn_in=16", ("ppo.burn_in", 16, "rollout.bptt_horizon")),
        ("league.role=spy", ("league.role", "spy", "main", "main_exploiter", "league_exploiter")),
        ("league.learner=a/b", ("league.learner", "a/b", 1, 56)),
        (f"league.learner={60 * 'x'}", (60, 56)),
        ("network.encoder_sizes=[64, 0]", ("network.encoder_sizes.1", 0, 1, 8192)),
        ("network.encoder_sizes=[1000000]", ("network.encoder_sizes.0", 1000000, 1)),
        ("network.encoder_sizes=3", (3, 1, 8192)),
        ("network.encoder_sizes=[]", ("network.encoder_sizes",)),
        ("optimizer.learning_rate=inf", ("optimizer.learning_rate", "inf", 0)),
        ("ppo.entropy_floors={move = nan}", ("ppo.entropy_floors.move", "nan")),
        ("curriculum.team_share=0.5", ("curriculum.team_share", 0.5, "curriculum.matches", 0)),
        ("curriculum.map_share=0.5", ("curriculum.matches", "curriculum.map_share")),
    ],
)
def test_an_invalid_setting_is_refused_by_name_in_one_line(text, values):
    with refused("invalid-setting", *values) as error:
        resolve(None, None, [text])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("section", sections())
def test_every_setting_of_a_wrong_type_has_a_readable_error(section):
    for key, field in sections()[section].model_fields.items():
        wrong = [] if field.default is None else None
        with refused("invalid-setting", f"{section}.{key}"):
            validate({section: {key: wrong}})


@pytest.mark.parametrize(
    ("unknown", "nearest"),
    [
        *RENAMED.items(),
        ("normalization.window", "normalization.return_window"),
        ("optimizer.max_gradient_norm", "optimizer.max_grad_norm"),
        ("ppo.magnet", "ppo.magnet_coef"),
        ("ppo.microbatch", "ppo.micro_batch_size"),
        ("ppo.minibatches", "ppo.num_minibatches"),
        ("ppo.gae_lamda", "ppo.gae_lambda"),
        ("schedules.learning_rate", "optimizer.learning_rate"),
        ("schedules.learning_rate_final", "optimizer.learning_rate_final"),
        ("schedules.learning_rate_warm_up_steps", "optimizer.learning_rate_warm_up_steps"),
    ],
)
def test_an_unknown_or_renamed_key_is_answered_with_its_present_name(unknown, nearest):
    with refused("invalid-setting", unknown, nearest):
        resolve(None, None, [f"{unknown}=1"])


@pytest.mark.parametrize("name", RENAMED.values())
def test_renamed_settings_exist(name):
    section, _, key = name.partition(".")
    assert key in sections()[section].model_fields


def test_an_unknown_key_of_the_file_is_refused_by_name(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text("[ppo]\nnormalised_ent_coef = 0.1\n")
    with refused("invalid-setting", "run.toml", "ppo.normalised_ent_coef", "ppo.normalized_ent_coef"):
        resolve(None, file, [])


@pytest.mark.parametrize("content", ["[ppo\n", "\x00\xff"])
def test_a_file_that_is_not_toml_is_refused(tmp_path, content):
    file = tmp_path / "run.toml"
    file.write_bytes(content.encode("latin-1"))
    with refused("invalid-setting", "TOML"):
        resolve(None, file, [])


def test_a_missing_file_is_refused(tmp_path):
    with refused("invalid-setting", "nothing.toml"):
        resolve(None, tmp_path / "nothing.toml", [])


def test_a_key_without_a_section_is_refused(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text("ppo = 3\n")
    with refused("invalid-setting", "ppo", 3):
        resolve(None, file, [])


def test_assigned_values_are_toml_or_text():
    parsed = parse_assignments(["network.encoder_sizes=[64, 32]", "league.learner=second", 'run.device="cpu"'])
    assert parsed == {
        "network": {"encoder_sizes": [64, 32]},
        "league": {"learner": "second"},
        "run": {"device": "cpu"},
    }


def test_the_resolved_configuration_round_trips_through_toml():
    heads = "ppo.ent_coef_per_head={answer = 0.5, 'odd one' = 2}"
    odd = """run.device='a "quoted" \\ path'"""
    config = resolve("recall", None, ["network.encoder_sizes=[16, 8]", "league.learner=with space", heads, odd])
    assert config.ppo.ent_coef_per_head == {"answer": 0.5, "odd one": 2.0}
    assert validate(tomllib.loads(to_toml(config))) == config


def test_every_setting_is_listed_with_a_description_and_a_default():
    listed = {each.name for each in list_settings(resolve(None, None, []))}
    for section, model in sections().items():
        assert model.__doc__
        for key, field in model.model_fields.items():
            assert setting_schemas()[section][key]["description"], f"{section}.{key}"
            assert not field.is_required()
            assert f"{section}.{key}" in listed


def test_a_section_is_listed_with_values_defaults_and_bounds():
    rows = {each.name: each for each in list_settings(resolve(None, None, ["ppo.clip_coef=0.1"]), "ppo")}
    assert {name.partition(".")[0] for name in rows} == {"ppo"}
    changed = rows["ppo.clip_coef"]
    assert (changed.value, changed.default, changed.bounds) == (0.1, 0.2, "> 0, < 1")


def test_an_unknown_section_is_rejected_with_the_nearest():
    with refused(ConfigError, "pro", "ppo"):
        list_settings(resolve(None, None, []), "pro")


def test_configurations_are_frozen():
    with refused(ValueError, "frozen"):
        resolve(None, None, []).ppo.gamma = 0.1
