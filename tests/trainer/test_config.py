import tomllib

import pytest

from arena.environments import names
from arena.environments.mech.composition import PRESETS
from arena.environments.mech.rewards import RewardWeights
from arena.environments.registry import declare
from trainer.config import describe, parse_assignments, preset, resolve, sections, to_toml, validate
from trainer.errors import ConfigError


def test_defaults_are_a_valid_configuration_for_mech_duel():
    config = resolve(None, None, [])
    assert config.environment.name == "mech-duel"
    assert config.ppo.gamma == 0.995
    assert config.rollout.steps % config.rollout.chunk == 0


@pytest.mark.parametrize("environment", names())
def test_every_built_in_environment_has_a_preset_of_its_own(environment):
    assert preset(environment)["environment"]["name"] == environment
    assert resolve(environment, None, []).environment.name == environment


@pytest.mark.parametrize("environment", PRESETS)
def test_training_discounts_as_the_shaping_of_rewards_does(environment):
    assert resolve(environment, None, []).ppo.gamma == RewardWeights().gamma


@pytest.mark.parametrize("environment", names())
def test_presets_name_heads_that_there_are(environment):
    settings = resolve(environment, None, []).ppo
    assert {*settings.entropy_factors, *settings.entropy_floors} <= {head.name for head in declare(environment).heads}


def test_an_environment_without_a_preset_takes_the_defaults():
    defaults = validate({"environment": {"name": "my-game"}})
    assert resolve("my-game", None, []) == defaults


def test_file_wins_over_preset_and_set_wins_over_file(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('[environment]\nname = "rps"\nnum_envs = 5\n[ppo]\ngamma = 0.5\nclip = 0.1\n')
    config = resolve(None, file, ["ppo.gamma=0.25", "network.core=feedforward"])
    assert (config.environment.name, config.environment.num_envs) == ("rps", 5)
    assert (config.ppo.gamma, config.ppo.clip) == (0.25, 0.1)
    assert config.schedules.entropy == preset("rps")["schedules"]["entropy"]


def test_the_environment_option_wins_over_the_file(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('[environment]\nname = "rps"\n')
    assert resolve("recall", file, []).environment.name == "recall"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ppo.gama=0.9", "unknown setting 'ppo.gama': the nearest is 'ppo.gamma'"),
        ("poo.gamma=0.9", "unknown section 'poo': the nearest is 'ppo'"),
        ("ppo.gamma=1.7", "ppo.gamma is 1.7: Input should be less than or equal to 1"),
        ("ppo.epochs=many", "ppo.epochs is 'many'"),
        ("gamma=0.9", "cannot read the setting 'gamma=0.9': write it as section.key=value"),
        ("ppo.gamma", "cannot read the setting 'ppo.gamma'"),
        ("rollout.chunk=7", "steps 64 is not a multiple of chunk 7"),
        ("ppo.entropy_factors={comm = -1}", "ppo.entropy_factors.comm is -1"),
        ("ppo.burn_in=16", "ppo.burn_in 16 takes all of rollout.chunk 16"),
        ("league.role=spy", "league.role is 'spy'"),
        ("network.encoder_sizes=[64, 0]", "network.encoder_sizes.1 is 0: Input should be greater than or equal to 1"),
        ("network.encoder_sizes=[1000000]", "network.encoder_sizes.0 is 1000000: Input should be less than"),
        ("schedules.learning_rate=inf", "schedules.learning_rate is inf: Input should be a finite number"),
        ("ppo.entropy_floors={move = nan}", "ppo.entropy_floors.move is nan: Input should be a finite number"),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused_by_name_in_one_line(text, message):
    with pytest.raises(ConfigError) as error:
        resolve(None, None, [text])
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_an_unknown_key_of_the_file_is_refused_by_name(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text("[schedules]\nentropi = 0.1\n")
    with pytest.raises(ConfigError, match=r"'schedules.entropi': the nearest is 'schedules.entropy'"):
        resolve(None, file, [])


@pytest.mark.parametrize("content", ["[ppo\n", "\x00\xff"])
def test_a_file_that_is_no_toml_is_refused(tmp_path, content):
    file = tmp_path / "run.toml"
    file.write_bytes(content.encode("latin-1"))
    with pytest.raises(ConfigError, match="is not TOML"):
        resolve(None, file, [])


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read .*nothing.toml: No such file"):
        resolve(None, tmp_path / "nothing.toml", [])


def test_a_key_outside_of_a_section_is_refused(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text("ppo = 3\n")
    with pytest.raises(ConfigError, match=r"ppo is 3: it is a section"):
        resolve(None, file, [])


def test_values_are_read_as_toml_and_text_as_text():
    parsed = parse_assignments(["network.encoder_sizes=[64, 32]", "league.learner=second", 'run.device="cpu"'])
    assert parsed == {
        "network": {"encoder_sizes": [64, 32]},
        "league": {"learner": "second"},
        "run": {"device": "cpu"},
    }


def test_the_resolved_configuration_is_a_file_that_gives_itself():
    heads = "ppo.entropy_factors={answer = 0.5, 'odd one' = 2}"
    config = resolve("recall", None, ["network.encoder_sizes=[16, 8]", "league.learner=with space", heads])
    assert config.ppo.entropy_factors == {"answer": 0.5, "odd one": 2.0}
    assert validate(tomllib.loads(to_toml(config))) == config


def test_every_setting_has_a_description_a_default_and_a_line_of_help():
    text = describe()
    for section, model in sections().items():
        assert model.__doc__
        for key, field in model.model_fields.items():
            assert field.description, f"{section}.{key}"
            assert not field.is_required()
            assert f"\n  {section}.{key} = " in text


def test_help_fits_a_window_of_eighty_columns_and_gives_ranges():
    text = describe()
    assert max(map(len, text.splitlines())) <= 76
    assert "ppo.clip = 0.2 (> 0, < 1): Clip range" in text
    assert "run.threads = 1 (>= 1, <= 256): Torch threads" in text


def test_configurations_are_frozen():
    with pytest.raises(ValueError, match="frozen"):
        resolve(None, None, []).ppo.gamma = 0.1
