import dataclasses
import hashlib
import json
import math
import os
import pickle
from functools import partial
from pathlib import Path

import pytest
import torch
from nonsense_weights import as_integers
from nonsense_weights import huge as at_3e38
from nonsense_weights import rewritten as recast
from refused import refused
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from arena.environments import EnvironmentSpec, declare, make
from arena.errors import CheckpointError
from arena.policies import ActorCritic, Architecture, CoreKind, checkpoint
from arena.policies.nn.mlp import EncoderKind
from arena.policies.playability import observation_bounds


@pytest.fixture(scope="module")
def spec() -> EnvironmentSpec:
    return make("recall", num_envs=1).spec


@pytest.fixture
def network(spec: EnvironmentSpec) -> ActorCritic:
    torch.manual_seed(0)
    built = ActorCritic(Architecture.of(spec, encoder_sizes=(12,), recurrent_size=8))
    built.observation_mean.uniform_()
    return built


@pytest.fixture
def data(network: ActorCritic, spec: EnvironmentSpec) -> bytes:
    return checkpoint.encode(network, spec)


def header(data: bytes) -> dict:
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])


def rewritten(data: bytes, drop: str = "", tensors: dict | None = None, **metadata: str) -> bytes:
    """The same checkpoint with some of its metadata or tensors replaced, or one of them left out."""
    contents = {**load_tensors(data), **(tensors or {})}
    contents.pop(drop, None)
    kept = {name: value for name, value in {**header(data)["__metadata__"], **metadata}.items() if name != drop}
    return save_tensors(contents, kept)


def test_weights_that_are_not_finite_are_refused_by_name(data: bytes):
    contents = load_tensors(data)
    contents["actor.bias"][1] = torch.nan
    with refused("invalid-checkpoint", "actor.bias"):
        checkpoint.decode(rewritten(data, tensors=contents), source="here")
    contents["actor.bias"] = torch.full(contents["actor.bias"].shape, 1e300, dtype=torch.float64)
    with refused("invalid-checkpoint", "actor.bias"):
        checkpoint.decode(rewritten(data, tensors=contents), source="here")
    contents = {name: torch.full_like(tensor, torch.inf) for name, tensor in contents.items()}
    count = len([tensor for tensor in contents.values() if tensor.numel()])
    with refused("invalid-checkpoint", "actor.bias", "actor.weight", count - 3):
        checkpoint.decode(rewritten(data, tensors=contents), source="here")


def test_integers_are_never_taken_for_weights(data: bytes, network: ActorCritic):
    with refused("invalid-checkpoint", "actor.bias", "int64", "float32"):
        checkpoint.decode(as_integers(data), source="here")
    with refused("invalid-checkpoint", "actor.bias", "int64", "float32"):
        checkpoint.load_strictly(network, load_tensors(as_integers(data)), "a saved state")


@pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16, torch.float64])
def test_floats_of_other_precision_are_converted(data: bytes, stored: torch.dtype):
    policy = checkpoint.decode(recast(data, lambda _, tensor: tensor.to(stored)))
    assert {tensor.dtype for tensor in policy.network.state_dict().values()} == {torch.float32}


def test_finite_weights_that_overflow_when_multiplied_are_refused_by_name(data: bytes):
    with refused("invalid-checkpoint", "3e+38", "actor.bias", "1e+18"):
        checkpoint.decode(at_3e38(data), source="here")


def test_weights_that_overflow_within_the_network_are_refused(spec: EnvironmentSpec):
    wide = checkpoint.encode(ActorCritic(Architecture.of(spec, encoder_sizes=(4,), recurrent_size=512)), spec)
    large = recast(wide, lambda name, tensor: torch.full_like(tensor, 9e17) if name[:4] in ("norm", "acto") else tensor)
    with refused("invalid-checkpoint", "inf", "[0, 0]"):
        checkpoint.decode(large, source="here")


@pytest.mark.parametrize("scale", [0.0, -1.0])
def test_observation_scales_of_zero_or_less_are_refused(data: bytes, scale: float):
    change = {"observation_std": torch.full_like(load_tensors(data)["observation_std"], scale)}
    with refused("invalid-checkpoint", f"{scale:g}", "observation_std"):
        checkpoint.decode(rewritten(data, tensors=change))


class Explosive(torch.nn.Module):
    """Finite for zeros and infinite for all but small inputs."""

    def __init__(self, inputs, features):
        super().__init__()
        self.layer = torch.nn.Linear(sum(math.prod(each.shape) for each in inputs.values()), features)

    def forward(self, inputs):
        flat = torch.cat([each.flatten(1) for each in inputs.values()], dim=1)
        return self.layer(flat) + torch.exp(1000.0 * flat.abs().sum(dim=1, keepdim=True)) - 1.0


def test_a_policy_is_tried_on_the_bounds_of_the_environment_that_it_is_to_play(spec: EnvironmentSpec):
    module = f"{__name__}:Explosive"
    data = checkpoint.encode(ActorCritic(Architecture.of(spec, encoder_sizes=(4,), module=module)), spec)
    checkpoint.decode(data, modules=[module])
    with refused("invalid-checkpoint", "nan"):
        checkpoint.decode_for(spec, data, modules=[module], source="here")


def test_infinite_bounds_are_tried_with_finite_numbers(spec: EnvironmentSpec):
    block = dataclasses.replace(spec.observation[0], low=-math.inf, high=math.inf)
    open_spec = dataclasses.replace(spec, observation=(block, *spec.observation[1:]))
    bounds = observation_bounds(open_spec)
    assert bounds.isfinite().all()
    assert bounds[:, 0].tolist() == [-1e6, 1e6]
    data = checkpoint.encode(ActorCritic(Architecture.of(open_spec, encoder_sizes=(4,), recurrent_size=4)), open_spec)
    checkpoint.decode_for(open_spec, data)


@pytest.mark.parametrize("name", ["mech-company", "rps", "openspiel:leduc_poker:rounds=20", "space_games:bazaar"])
def test_fresh_networks_of_every_kind_of_observation_pass(name: str):
    spec = declare(name)
    data = checkpoint.encode(ActorCritic(Architecture.of(spec, encoder_sizes=(8,), member_size=4)), spec)
    assert checkpoint.decode_for(spec, data).signature == spec.signature


def test_a_checkpoint_that_names_another_environment_is_refused(data: bytes, spec: EnvironmentSpec):
    with refused("invalid-checkpoint", "rps", "recall"):
        checkpoint.decode_for(spec, rewritten(data, environment="rps"), source="here")


def test_policies_of_a_game_play_rounds_of_it_and_the_reverse():
    game, rounds = declare("rps"), declare("rps:rounds=20")
    for made_for, plays in ((game, rounds), (rounds, game)):
        data = checkpoint.encode(ActorCritic(Architecture.of(made_for, encoder_sizes=(4,))), made_for)
        assert checkpoint.decode_for(plays, data).environment == made_for.name


@pytest.mark.holds("T9")
@pytest.mark.parametrize("core", [CoreKind.LSTM, CoreKind.FEEDFORWARD])
@pytest.mark.parametrize("encoder", list(EncoderKind))
def test_round_trip_keeps_the_player_bit_by_bit(
    spec: EnvironmentSpec, core: CoreKind, encoder: EncoderKind, tmp_path: Path
):
    architecture = Architecture.of(spec, encoder=encoder, encoder_sizes=(12, 10), core=core, recurrent_size=8)
    network = ActorCritic(architecture)
    network.observation_std.uniform_(0.5, 2.0)
    path = tmp_path / "folder" / "policy.safetensors"

    sha256 = checkpoint.save(path, network, spec)
    policy = checkpoint.load(path)

    assert sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert policy.network.architecture == network.architecture
    assert (policy.environment, policy.signature) == ("recall", spec.signature)
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, policy.network.state_dict()[name]), name
    values, nobody = torch.randn(3, spec.observation_size), torch.zeros(3, dtype=torch.bool)
    before, after = (
        each.step(values, each.initial_state(3), nobody, ~nobody).parameters for each in (network, policy.network)
    )
    assert torch.equal(before, after)


def test_equal_networks_give_equal_bytes(network: ActorCritic, spec: EnvironmentSpec, data: bytes):
    twin = ActorCritic(network.architecture)
    twin.load_state_dict(network.state_dict())

    assert all(checkpoint.encode(twin, spec) == data for _ in range(5))
    with torch.no_grad():
        twin.raw_log_std.add_(1.0) if twin.raw_log_std.numel() else twin.critic.bias.add_(1.0)
    assert checkpoint.encode(twin, spec) != data


def test_saving_again_replaces_the_file(network: ActorCritic, spec: EnvironmentSpec, tmp_path: Path):
    path = tmp_path / "policy.safetensors"
    path.write_bytes(b"old")

    checkpoint.save(path, network, spec)

    checkpoint.load(path)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.holds("H1")
@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_interrupted_save_leaves_the_old_file_and_no_other(
    network: ActorCritic, spec: EnvironmentSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
):
    path = tmp_path / "policy.safetensors"
    path.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail) if broken == "fsync" else monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        checkpoint.save(path, network, spec)

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_header_whose_length_begins_like_a_pickle_is_read(spec: EnvironmentSpec):
    network = ActorCritic(Architecture.of(spec, core=CoreKind.FEEDFORWARD, encoder_sizes=(12,), recurrent_size=8))
    data = checkpoint.encode(network, spec)
    body, inside = data[8 + int.from_bytes(data[:8], "little") :], json.dumps(header(data), separators=(",", ":"))
    alike = (0x580).to_bytes(8, "little") + inside.encode().ljust(0x580) + body
    assert alike.startswith(checkpoint.PICKLE_STARTS)
    loaded = checkpoint.decode(alike).network.state_dict()
    assert all(torch.equal(tensor, loaded[name]) for name, tensor in network.state_dict().items())


@pytest.mark.holds("T8")
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_is_refused_unread(protocol: int):
    class Bomb:
        def __reduce__(self) -> tuple:
            return os._exit, (1,)

    with refused("invalid-checkpoint", "pickle"):
        checkpoint.decode(pickle.dumps(Bomb(), protocol=protocol))


@pytest.mark.parametrize("zipped", [True, False])
def test_file_of_torch_save_is_refused(zipped: bool, tmp_path: Path, network: ActorCritic):
    path = tmp_path / "policy.pt"
    torch.save(network.state_dict(), path, _use_new_zipfile_serialization=zipped)

    with refused("invalid-checkpoint", "policy.pt", "pickle"):
        checkpoint.load(path)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_truncated_file_is_refused(data: bytes, share: float):
    with refused("invalid-checkpoint", "safetensors"):
        checkpoint.decode(data[: int(share * len(data))], source="x")


@pytest.mark.holds("H3")
@pytest.mark.parametrize("version", ["4", "99", "0", "-1", "one", "", pytest.param("9" * 5000, id="of 5000 digits")])
def test_other_format_version_is_refused(data: bytes, version: str):
    with refused("invalid-checkpoint", version, 3):
        checkpoint.decode(rewritten(data, format_version=version))


def test_other_safetensors_file_is_refused(data: bytes):
    with refused("invalid-checkpoint", "diffusion", "echelon-league.policy"):
        checkpoint.decode(rewritten(data, format="diffusion"))
    with refused("invalid-checkpoint", "None", "echelon-league.policy"):
        checkpoint.decode(save_tensors({"weight": torch.zeros(2)}))


@pytest.mark.holds("H2")
@pytest.mark.parametrize("into_a_network", [False, True])
def test_every_difference_is_named(data: bytes, network: ActorCritic, into_a_network: bool):
    strange = rewritten(data, drop="critic.bias", tensors={"actor.bias": torch.zeros(9), "head.scale": torch.ones(1)})
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}

    read = partial(checkpoint.decode, strange, source="x")
    if into_a_network:
        read = partial(checkpoint.load_strictly, network, load_tensors(strange), "x")
    with pytest.raises(CheckpointError) as refusal:
        read()

    message = str(refusal.value)
    for difference in ("missing critic.bias", "unexpected head.scale", "actor.bias is (9,), not (5,)"):
        assert difference in message
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())


@pytest.mark.parametrize(
    "architecture",
    [
        "not json",
        "[]",
        "{}",
        '{"observation_size": 6}',
        '{"observation_size": 6, "heads": [{"name": "x", "kind": "dice", "size": 2, "masked": false}],'
        ' "encoder_sizes": [4], "core": "lstm", "recurrent_size": 4, "initial_log_std": 0.0}',
        '{"observation_size": "six", "heads": [], "encoder_sizes": [4], "core": "lstm", "recurrent_size": 4,'
        ' "initial_log_std": 0.0}',
        '{"observation_size": 6, "heads": [], "encoder_sizes": [4], "core": "lstm", "recurrent_size": -4,'
        ' "initial_log_std": 0.0}',
        '{"heads": [{"name": "x", "kind": "categorical", "size": 2, "masked": false, "\\ud800": 1}]}',
        pytest.param("[" * 100_000, id="brackets within brackets"),
    ],
)
def test_unreadable_architecture_is_refused(data: bytes, architecture: str):
    with refused("invalid-checkpoint", "architecture") as refusal:
        checkpoint.decode(rewritten(data, architecture=architecture), source="x")
    assert str(refusal.value).encode()


@pytest.mark.parametrize(
    ("strange", "problem"),
    [
        ({"initial_log_std": 10**30}, "unreadable"),
        ({"recurrent_size": "4"}, "unreadable"),
        ({"recurrent_size": 4.5}, "unreadable"),
        ({"recurrent_size": 4.0}, "unreadable"),
        ({"recurrent_size": True}, "unreadable"),
        ({"layers": 2}, "unreadable"),
        (
            {
                "images": [
                    {
                        "start": 0,
                        "height": 1,
                        "width": 1,
                        "depth": 1,
                        "channels_first": True,
                        "limit": 1.0,
                        "channels": [],
                    }
                ],
                "embeddings": [],
                "module": None,
            },
            "impossible",
        ),
    ],
    ids=[
        "a number beyond all",
        "text",
        "a fraction",
        "a whole float",
        "a boolean",
        "an unknown field",
        "an image without convolutions",
    ],
)
def test_impossible_architecture_is_refused(data: bytes, strange: dict, problem: str):
    architecture = json.loads(header(data)["__metadata__"]["architecture"]) | strange
    with refused("invalid-checkpoint", problem):
        checkpoint.decode(rewritten(data, architecture=json.dumps(architecture)), source="x")


@pytest.mark.holds("T9")
@pytest.mark.parametrize("field", ["environment", "signature", "architecture"])
def test_missing_metadata_is_named(data: bytes, field: str):
    with refused("invalid-checkpoint", field):
        checkpoint.decode(rewritten(data, drop=field))


def test_huge_architecture_is_refused_before_it_is_built(data: bytes):
    fields = json.loads(header(data)["__metadata__"]["architecture"])
    for huge in ({"recurrent_size": 10**7}, {"encoder_sizes": [4] * 3_000_000}):
        with refused("invalid-checkpoint") as refusal:
            checkpoint.decode(rewritten(data, architecture=json.dumps({**fields, **huge})))
        assert len(str(refusal.value)) < 1000


def test_of_many_differences_some_are_named_and_the_others_counted(data: bytes):
    names = {f"extra.{number:02d}": torch.zeros(1) for number in range(30)}

    with refused("invalid-checkpoint", "extra.00", "extra.09", 20):
        checkpoint.decode(rewritten(data, tensors=load_tensors(data) | names))


def test_missing_file_is_named(tmp_path: Path):
    with refused("invalid-checkpoint", "gone.safetensors"):
        checkpoint.load(tmp_path / "gone.safetensors")
    with refused("invalid-checkpoint", "Is a directory"):
        checkpoint.load(tmp_path)


@pytest.mark.holds("G4", "H3")
def test_policy_of_format_1_can_be_read():
    """The file was written when format 1 was the only one; whoever makes another writes the way from this one."""
    policy = checkpoint.load(Path(__file__).parent / "vectors" / "policy_v1.safetensors")

    seen, everybody = torch.linspace(-1.0, 1.0, 6).unsqueeze(0), torch.tensor([True])
    output = policy.network.step(seen, policy.initial_state(1), everybody, everybody)

    assert policy.environment == "recall"
    assert policy.network.architecture.encoder is EncoderKind.TANH
    assert output.value.item() == pytest.approx(-1.1767881, abs=1e-5)
    assert output.parameters[0].tolist() == pytest.approx(
        [-0.0068887, -0.0041719, -0.0020652, 0.0088847, 0.0123166], abs=1e-6
    )
