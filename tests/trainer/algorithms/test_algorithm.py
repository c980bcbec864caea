"""Choice of the learning algorithm: built-in names, users' classes, and errors in their names and options."""

import pytest

from arena.environments import make
from trainer.algorithms import Algorithm, make_algorithm
from trainer.algorithms.vtrace import VTrace
from trainer.config.schema import TrainerConfig
from trainer.errors import ConfigError
from trainer.ppo.learner import Learner

OWN_ALGORITHM = """
from trainer.ppo.learner import Learner

class Slow(Learner):
    def __init__(self, config, spec, ranks, *, factor=1.0):
        super().__init__(config, spec, ranks)
        self.factor = factor

class Empty:
    def __init__(self, config, spec, ranks):
        self.steps = 0
"""


@pytest.fixture
def own_algorithm(tmp_path, monkeypatch):
    (tmp_path / "own_algorithm.py").write_text(OWN_ALGORITHM)
    monkeypatch.chdir(tmp_path)


def made(name, **options):
    config = TrainerConfig.model_validate(
        {"environment": {"name": "recall"}, "algorithm": {"name": name, "options": options}}
    )
    return make_algorithm(config, make("recall", num_envs=1, seed=0).spec)


@pytest.mark.parametrize(("name", "kind"), [("ppo", Learner), ("vtrace", VTrace)])
def test_built_in_algorithms_go_by_their_names(name, kind):
    assert type(made(name)) is kind
    assert isinstance(made(name), Algorithm)


def test_a_users_algorithm_is_found_in_the_working_directory_and_gets_its_options(own_algorithm):
    learner = made("own_algorithm:Slow", factor=0.5)
    assert learner.factor == 0.5
    learner.reset_weights()


@pytest.mark.parametrize(
    ("name", "options", "parts"),
    [
        ("impala", {}, ["'impala'", "ppo or vtrace", "MODULE:CLASS"]),
        ("no_such_module:Own", {}, ["'no_such_module:Own'", "ModuleNotFoundError"]),
        ("own_algorithm:Empty", {}, ["'own_algorithm:Empty'", "allocate", "learn", "published", "Learner"]),
        ("own_algorithm:Slow", {"factors": 2.0}, ["'factors'", "factor=1.0"]),
        ("vtrace", {"clip": 2.0}, ["'clip'", "clip_rho", "clip_c"]),
    ],
)
def test_errors_name_the_value_and_the_remedy(own_algorithm, name, options, parts):
    with pytest.raises(ConfigError) as caught:
        made(name, **options)
    for part in parts:
        assert part in str(caught.value)
