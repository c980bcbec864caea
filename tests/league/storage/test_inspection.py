"""The server's own check of weights, which needs no torch and reads a file once."""

import io
import json
import threading
from pathlib import Path

import pytest
import torch
from league_scene import ON_SQLITE, Scene, safetensors, sha256
from nonsense_weights import as_integers, huge, not_numbers, rewritten
from refused import assert_names, refused
from safetensors.torch import save

from arena.environments import declare
from arena.errors import CheckpointError
from arena.policies import ActorCritic, Architecture, CoreKind
from arena.policies.checkpoint import decode, encode
from arena.policies.nn.mlp import EncoderKind
from league import wire
from league.client import LeagueClient
from league.errors import RefusedCheckpointError
from league.storage import inspection
from league.storage.inspection import Inspector, find_fault
from league.storage.local import DirectoryStore

SPEC = declare("rps")


def policy(**changes: object) -> bytes:
    torch.manual_seed(0)
    return encode(ActorCritic(Architecture.of(SPEC, encoder_sizes=(8,), recurrent_size=6, **changes)), SPEC)


def fault_of(data: bytes) -> str | None:
    digest, fault = find_fault(io.BytesIO(data), len(data), "it")
    assert digest == sha256(data)
    return fault


@pytest.mark.parametrize("environment", ["rps", "recall", "mech-duel", "mech-company", "space_games:bazaar"])
@pytest.mark.parametrize("encoder", list(EncoderKind))
@pytest.mark.parametrize("core", [CoreKind.LSTM, CoreKind.FEEDFORWARD])
def test_every_network_that_the_project_writes_passes(environment: str, encoder: EncoderKind, core: CoreKind) -> None:
    spec = declare(environment)
    for member_size in (0, 4):
        architecture = Architecture.of(spec, encoder=encoder, encoder_sizes=(8, 7), core=core, member_size=member_size)
        assert fault_of(encode(ActorCritic(architecture), spec)) is None


def test_a_user_s_module_may_keep_whole_numbers() -> None:
    spec = declare("space_games:bazaar")
    network = ActorCritic(Architecture.of(spec, encoder_sizes=(8,), module="space_games:Reader"))
    network.encoder[0].module.register_buffer("count", torch.zeros(3, dtype=torch.int64))
    assert fault_of(encode(network, spec)) is None


@pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16, torch.float64])
def test_types_that_are_converted_on_loading_pass_and_are_looked_into(stored: torch.dtype) -> None:
    assert fault_of(rewritten(policy(), lambda _, tensor: tensor.to(stored))) is None
    nothing = rewritten(policy(), lambda _, tensor: torch.full_like(tensor, torch.nan).to(stored))
    assert_names(str(fault_of(nothing)), "actor.bias")


def without(data: bytes, name: str) -> bytes:
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    kept = {key: tensor for key, tensor in torch_load(data).items() if key != name}
    return save(kept, header["__metadata__"])


def torch_load(data: bytes) -> dict[str, torch.Tensor]:
    from safetensors.torch import load

    return load(data)


FAULTS = {
    "integers": (as_integers(policy()), "actor.bias holds int64, but the network has float32"),
    "huge": (huge(policy()), "actor.bias holds 3e+38, but products of numbers above 1e+18 overflow"),
    "not finite": (not_numbers(policy()), "actor.bias holds numbers that are not finite"),
    "flat": (
        rewritten(policy(), lambda name, tensor: torch.zeros_like(tensor) if name == "observation_std" else tensor),
        "observation_std holds 0, but a standard deviation must be above 0",
    ),
    "other shape": (
        rewritten(policy(), lambda name, tensor: tensor[:-1] if name == "norm.bias" else tensor),
        "norm.bias has shape (5,), but its architecture requires (6,)",
    ),
    "missing": (without(policy(), "critic.bias"), "it has no critic.bias, which its architecture requires"),
    "no architecture": (
        rewritten(policy(), lambda _, tensor: tensor, architecture="[]"),
        "its architecture cannot be read (TypeError)",
    ),
    "infinite architecture": (
        rewritten(policy(), lambda _, tensor: tensor, architecture='{"observation_size": Infinity}'),
        "its architecture cannot be read (OverflowError)",
    ),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_inspection_and_loader_agree_on_unloadable_files(kind: str) -> None:
    data, fault = FAULTS[kind]
    assert fault_of(data) == fault
    with pytest.raises(CheckpointError):
        decode(data)


def test_of_other_files_only_finite_numbers_are_asked() -> None:
    assert fault_of(safetensors(3)) is None
    assert fault_of(save({"steps": torch.arange(3), "large": torch.full((2,), 3e38)})) is None
    assert_names(str(fault_of(save({"weight": torch.tensor([1.0, -torch.inf])}))), "weight")
    assert "well-formed" in str(fault_of(b"no such file"))
    assert "well-formed" in str(fault_of(policy()[:-1]))


def test_tensor_names_in_findings_are_bounded_and_escaped() -> None:
    fault = fault_of(save({"\x1b[31m\0" + 100_000 * "w": torch.tensor([torch.nan])}))
    assert fault is not None
    assert fault.startswith("\\x1b[31m\\x00www")
    assert "www... " in fault
    assert len(fault) < 200


def test_numbers_of_large_tensors_are_all_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "_BLOCK_BYTES", 64)
    for place in (0, 99):
        weights = torch.zeros(100)
        weights[place] = torch.nan
        assert_names(str(fault_of(save({"weight": weights}))), "weight")
    assert fault_of(save({"weight": torch.zeros(100)})) is None


def test_a_check_does_not_wait_for_a_long_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = DirectoryStore(tmp_path, 2**20)
    data = policy()
    store.put(sha256(data), io.BytesIO(data))
    inspector = Inspector(store)
    begun, go_on = threading.Event(), threading.Event()
    whole = inspection.find_fault

    def slow(stream: io.BytesIO, size: int, name: str) -> tuple[str, str | None]:
        begun.set()
        go_on.wait(30)
        return whole(stream, size, name)

    monkeypatch.setattr(inspection, "find_fault", slow)
    monkeypatch.setattr(inspection, "WAIT_S", 0.01)
    thread = threading.Thread(target=inspector.find_fault, args=(sha256(data),))
    thread.start()
    assert begun.wait(30)
    with pytest.raises(TimeoutError, match="another inspection takes longer"):
        inspector.find_fault(sha256(data))
    go_on.set()
    thread.join()
    assert inspector.find_fault(sha256(data)) is None


# --- at publishing ---------------------------------------------------------------------------------------------------


def publish(league: LeagueClient, data: bytes) -> wire.Player:
    scene = Scene(league, SPEC.name, SPEC.signature)
    league.upload(data, sha256(data))
    return league.publish(wire.PlayerCreate(learner_id=scene.learner.id, checkpoint=sha256(data), step=1))


@ON_SQLITE
@pytest.mark.parametrize("kind", ["integers", "other shape", "missing", "no architecture"])
def test_publishing_rejects_checkpoints_with_a_broken_header(league: LeagueClient, kind: str) -> None:
    data, fault = FAULTS[kind]
    with pytest.raises(RefusedCheckpointError) as refusal:
        publish(league, data)
    assert fault in str(refusal.value)
    assert sha256(data) in str(refusal.value)
    assert league.players(SPEC.name, kind="snapshot").items == []


@ON_SQLITE
def test_publishing_refuses_a_checkpoint_of_another_environment_with_the_same_signature(league: LeagueClient) -> None:
    with refused("signature-mismatch", "recall", "rps"):
        publish(league, rewritten(policy(), lambda _, tensor: tensor, environment="recall"))
    assert publish(league, policy()).standing == "candidate"
