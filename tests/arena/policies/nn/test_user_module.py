"""Network modules of a user's own: what they get, what they must do, and whose code is run."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from refused import refused

from arena.cli import main
from arena.environments import declare
from arena.policies import ActorCritic, Architecture, CoreKind
from arena.policies import checkpoint as checkpoints
from arena.policies.nn.user_module import ALLOWED_MODULES_VARIABLE, InputKind, allow_modules
from arena.policies.nn.user_module_checks import check_module

BAZAAR = declare("space_games:bazaar")
PLACES = BAZAAR.layout
READER = "space_games:Reader"


def architecture_of(module: str, core: CoreKind = CoreKind.MODULE) -> Architecture:
    return Architecture.of(BAZAAR, encoder_sizes=(16,), recurrent_size=12, core=core, module=module)


def test_a_module_gets_every_block_as_it_is_meant():
    network = ActorCritic(architecture_of(READER, CoreKind.LSTM))
    layout = network.architecture.module
    assert {each.name: (each.kind, each.shape) for each in layout.inputs} == {
        "card": (InputKind.CHOICES, (1,)),
        "picture": (InputKind.IMAGE, (3, 9, 9)),
        "purse.0": (InputKind.NUMBERS, (1,)),
        "purse.1": (InputKind.NUMBERS, (2,)),
        "units.kind": (InputKind.NUMBERS, (4, 3)),
        "units.where": (InputKind.NUMBERS, (4, 2)),
        "units_mask": (InputKind.MEMBERS, (4,)),
        "away": (InputKind.NUMBERS, (1,)),
    }
    assert {each.name: each.options for each in layout.inputs if each.options} == {"card": (100,)}
    values = torch.randn(2, BAZAAR.observation_size)
    picture = torch.randint(256, (2, 9, 9, 3))
    values[:, PLACES["picture"]] = picture.flatten(1).float()
    values[:, PLACES["card"]] = torch.tensor([[99.0], [3.0]])
    values[:, PLACES["units_mask"]] = torch.tensor([[1.0, 1.0, 0.0, 0.0], [0.0] * 4])
    network.observation_mean[PLACES["away"]] = 4.0
    network.observation_std[PLACES["away"]] = 2.0
    told = {}
    network.encoder[0].module.register_forward_pre_hook(lambda _, inputs: told.update(inputs[0]))
    network.encode(values)
    torch.testing.assert_close(told["picture"], picture.permute(0, 3, 1, 2) / 255.0)
    assert told["card"].tolist() == [[99], [3]]
    assert told["card"].dtype is torch.int64
    assert told["units_mask"].tolist() == [[True, True, False, False], [False] * 4]
    where = values[:, PLACES["units.where"]].view(2, 4, 2)
    assert torch.equal(told["units.where"][0], torch.cat([where[0, :2], torch.zeros(2, 2)]))
    assert not told["units.where"][1].any()
    torch.testing.assert_close(told["away"], (values[:, PLACES["away"]] - 4.0) / 2.0)


@pytest.mark.parametrize("module", ["Flawed", "Rememberer", "Forgetful"])
def test_valid_modules_pass_the_checks(module: str):
    check_module(architecture_of(f"space_games:{module}"), BAZAAR)
    check_module(architecture_of(READER, CoreKind.LSTM), BAZAAR)


@pytest.mark.parametrize(
    ("module", "values"),
    [
        ("Wide", ("(12, 24)", "(12, 12)")),
        ("Unlearned", ("spare.weight", "spare.bias")),
        ("Frozen", ("layer.weight", "layer.bias")),
        ("Empty", ()),
        ("Dropping", ()),
        ("Normed", ("eval()", "train()")),
        ("Counting", ("BatchNorm",)),
        ("Gossiping", ()),
        ("Double", ("layer.weight", "torch.float64")),
        ("Failing", ("KeyError", "purse")),
        ("Infinite", ()),
        ("Shrinking", ("(6, 1)", "(6, 3)")),
        ("Unmeasured", ("memory_size", None)),
        ("Other", ("Other",)),
        ("Bare", ("TypeError",)),
        ("nothing", ("MODULE:CLASS",)),
    ],
)
def test_a_module_with_a_flaw_is_refused_with_the_reason(module: str, values: tuple):
    with refused("invalid-network-module", f"space_games:{module}", *values):
        check_module(architecture_of(f"space_games:{module}"), BAZAAR)


def test_a_module_that_python_does_not_find_is_refused(tmp_path, monkeypatch: pytest.MonkeyPatch):
    with refused("invalid-network-module", "nopackage.nets:Net", "nopackage"):
        ActorCritic(architecture_of("nopackage.nets:Net"))
    (tmp_path / "broken_nets.py").write_text("class Net(", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with refused("invalid-network-module", "broken_nets:Net"):
        ActorCritic(architecture_of("broken_nets:Net"))
    with refused("invalid-input", "network.core", "network.module"):
        ActorCritic(Architecture.of(declare("recall"), core=CoreKind.MODULE))


@pytest.fixture
def stranger(tmp_path, monkeypatch: pytest.MonkeyPatch) -> Iterator[bytes]:
    """A checkpoint that needs a module which leaves a trace when it is imported."""
    code = f"import pathlib\npathlib.Path({str(tmp_path / 'trace')!r}).touch()\nfrom space_games import Forgetful\n"
    (tmp_path / "strangers_net.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    network = ActorCritic(architecture_of("strangers_net:Forgetful"))
    sys.modules.pop("strangers_net")
    (tmp_path / "trace").unlink()
    yield checkpoints.encode(network, BAZAAR)
    sys.modules.pop("strangers_net", None)


def test_code_that_a_checkpoint_names_is_not_run_unless_the_user_named_it_too(
    stranger: bytes, tmp_path, monkeypatch: pytest.MonkeyPatch
):
    for named in ([], [READER], [""]):
        with refused(
            "module-not-allowed",
            "strangers_net:Forgetful",
            "--module",
            "network.module",
            "ARENA_MODULES=strangers_net:Forgetful",
        ):
            checkpoints.decode(stranger, source="here", modules=named)
    assert not (tmp_path / "trace").exists()
    assert checkpoints.decode(stranger, modules=["strangers_net:Forgetful"]).network.core.state_size == 0
    assert (tmp_path / "trace").exists()
    sys.modules.pop("strangers_net")
    monkeypatch.setenv(ALLOWED_MODULES_VARIABLE, f"{READER}, strangers_net:Forgetful")
    assert checkpoints.decode(stranger).network.core.state_size == 0


def test_commands_pass_allowed_modules_to_child_processes(
    stranger: bytes, tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv(ALLOWED_MODULES_VARIABLE, READER)
    (tmp_path / "stranger.safetensors").write_bytes(stranger)
    path = str(tmp_path / "stranger.safetensors")
    game = ("--environment", "space_games:bazaar", "--matches", "2", "--json")
    for named, code in (([], 1), (["--module", "strangers_net:Forgetful"], 0)):
        with pytest.raises(SystemExit) as left:
            main(["match", path, "random", *game, *named])
        assert (left.value.code or 0) == code
        assert (tmp_path / "trace").exists() is not bool(code)
    assert os.environ[ALLOWED_MODULES_VARIABLE] == f"{READER},strangers_net:Forgetful"
    assert "give --module strangers_net:Forgetful" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["nets", "nets.MyNet", "a:b:c", "../nets:MyNet", "nets:MyNet,other:Net", ":", ""])
def test_invalid_module_name_is_rejected(monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.delenv(ALLOWED_MODULES_VARIABLE, raising=False)
    with refused("invalid-network-module", "MODULE:CLASS"):
        allow_modules([READER, name])
    assert ALLOWED_MODULES_VARIABLE not in os.environ


def test_a_named_module_that_is_not_here_is_refused_by_name(stranger: bytes, tmp_path):
    (tmp_path / "strangers_net.py").unlink()
    with refused("invalid-checkpoint", "strangers_net:Forgetful"):
        checkpoints.decode(stranger, source="here", modules=["strangers_net:Forgetful"])


def test_a_module_that_has_changed_since_is_refused_by_its_weights(stranger: bytes, tmp_path):
    code = "from space_games import Flawed as Forgetful\n"
    (tmp_path / "strangers_net.py").write_text(code, encoding="utf-8")
    with refused("invalid-checkpoint", "core.module.layer.bias"):
        checkpoints.decode(stranger, modules=["strangers_net:Forgetful"])


def test_buffers_created_by_a_module_exist_after_loading():
    """A buffer that is not saved would be rubbish in a network that was built without memory."""
    network = ActorCritic(architecture_of("space_games:Rememberer"))
    loaded = checkpoints.decode(checkpoints.encode(network, BAZAAR), modules=["space_games:Rememberer"]).network
    assert "core.module.scale" not in loaded.state_dict()
    assert float(loaded.core.module.scale) == 1.0


def test_the_module_of_the_page_passes_in_either_place(tmp_path, monkeypatch: pytest.MonkeyPatch):
    page = (Path(__file__).parents[4] / "docs/guides/train" / "networks.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.+?)```", page, re.DOTALL)
    (tmp_path / "readers_nets.py").write_text(f"{code}\n\nclass Whole(MyNet):\n    memory_size = 0\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    check_module(architecture_of("readers_nets:MyNet", CoreKind.LSTM), BAZAAR)
    check_module(architecture_of("readers_nets:Whole"), BAZAAR)
    sys.modules.pop("readers_nets")


def test_reading_a_checkpoint_leaves_torchs_chance_as_it_was():
    data = checkpoints.encode(ActorCritic(architecture_of("space_games:Rememberer")), BAZAAR)
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    checkpoints.decode(data, modules=["space_games:Rememberer"])
    assert torch.equal(torch.rand(3), expected)
