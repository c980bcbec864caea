"""The four ways in: a Python callable, ONNX, a process, an HTTP server; how the first two fail."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, checker, helper, save
from outside_policies import EXAMPLES, PATIENT, script
from refused import refused

from arena.agents import Batch, open_policy
from arena.agents.onnx import OnnxActor
from arena.agents.python import PythonAgent
from arena.cli import main
from arena.environments import declare
from arena.play.series import open_players, play_series, resolve_policy

RECALL, RPS = declare("recall"), declare("rps")


def score_of(name, patience=PATIENT):
    """Score against itself: the recaller knows every answer, and so does its opponent."""
    with open_players("recall", (name, "random"), patience) as (one, random):
        beaten = play_series("recall", one, random, matches=20, seed=0)
        itself = play_series("recall", one, one, matches=8, seed=0)
    assert {*beaten.reasons, *itself.reasons} == {"answer"}
    assert itself.score == 0.5
    return beaten.score


# --- examples --------------------------------------------------------------------------------------------------------


def test_the_example_in_python_remembers(folder):
    shutil.copy(EXAMPLES / "recaller.py", folder)
    assert score_of("recaller:recaller") > 0.7


@pytest.mark.slow
def test_the_example_in_onnx_remembers(folder):
    subprocess.run([sys.executable, EXAMPLES / "export_onnx.py"], cwd=folder, check=True, capture_output=True)
    assert score_of("recaller.onnx") > 0.7


@pytest.mark.integration
def test_the_example_of_a_process_remembers():
    assert score_of(f"process:{sys.executable} {EXAMPLES / 'bot.py'}") > 0.7


@pytest.mark.integration
def test_the_example_of_a_server_remembers():
    command = [sys.executable, str(EXAMPLES / "server.py"), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            port = server.stdout.readline().split()[-1]
            assert score_of(f"http://127.0.0.1:{port}/") > 0.7
        finally:
            server.terminate()


@pytest.mark.parametrize("example", sorted(each.name for each in EXAMPLES.glob("*.py")))
def test_the_page_has_the_example_as_it_is(example):
    page = (EXAMPLES.parents[1] / "docs/guides/games" / "external-players.md").read_text(encoding="utf-8")
    assert f"```python\n{(EXAMPLES / example).read_text(encoding='utf-8')}```" in page


# --- python ----------------------------------------------------------------------------------------------------------


def test_policy_class_is_constructed_with_the_game_and_has_an_identity(folder):
    script(
        folder,
        "outside_bots.py",
        """
class Whole:
    identity = "whole 2"

    def __init__(self, game):
        self.size = game.heads[0].size
        self.closed = False

    def __call__(self, batch):
        return {"choice_logits": [[0.0] * self.size] * len(batch)}

    def close(self):
        self.closed = True


def failing(batch):
    raise KeyError("no such\\nopening")


def leaving(batch):
    raise SystemExit("enough")


def odd(batch):
    return [1, 2, 3]


class Unmade:
    def __init__(self):
        pass


number = 3
""",
    )
    policy = open_policy(RPS, "outside_bots:Whole")
    assert policy.identity == "whole 2"
    assert play_series("rps", policy, resolve_policy("rps", "random"), matches=2, seed=0).matches
    policy.close()
    assert policy._actor._answer.closed
    random = resolve_policy("rps", "random")
    for name, value in [
        ("failing", "KeyError: 'no such\\nopening'"),
        ("leaving", "SystemExit: enough"),
        ("odd", [1, 2, 3]),
    ]:
        with refused("external-policy-failed", f"outside_bots:{name}", value):
            play_series("rps", open_policy(RPS, f"outside_bots:{name}"), random, matches=2, seed=0)
    for name, value in [
        ("Unmade", "TypeError"),
        ("number", 3),
        ("nobody", "outside_bots"),
    ]:
        with refused("external-policy-failed", name, value):
            open_policy(RPS, f"outside_bots:{name}")
    with refused("external-policy-failed", "ModuleNotFoundError", "no_such_bots"):
        open_policy(RPS, "no_such_bots:one")


def answered(memory):
    """What is remembered of an answer of two agents."""
    actor = PythonAgent(lambda batch: ({"choice": [0] * len(batch)}, memory))
    return actor.act(Batch(np.zeros((2, 1), np.float32), {}, (None, None))).memory


def test_a_callable_gives_each_agent_one_thing_to_remember_or_nothing():
    assert answered(None) == answered(()) == ()
    assert answered(["one", None]) == ("one", None)
    assert [row.tolist() for row in answered(np.eye(2))] == [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize("memory", [3, "ab", {"home": 1, "away": 2}, np.array(1.0)])
def test_callable_with_invalid_memory_is_rejected(memory):
    with refused("external-policy-failed", repr(memory)):
        answered(memory)


# --- ONNX ------------------------------------------------------------------------------------------------------------


def model(path, *, inputs, outputs, nodes):
    graph = helper.make_graph(
        nodes,
        "policy",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info(*each) for each in outputs],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(made)
    save(made, path)
    return str(path)


FLOAT, BOOL = TensorProto.FLOAT, TensorProto.BOOL
SEEN, MASK, HELD = ("observation", FLOAT, ["B", 6]), ("mask_answer", BOOL, ["B", 5]), ("held", FLOAT, ["B", 5])
SAID, NEXT = ("answer_logits", FLOAT, ["B", 5]), ("next_held", FLOAT, ["B", 5])
KEEPING = [
    helper.make_node("Cast", ["mask_answer"], ["answer_logits"], to=FLOAT),
    helper.make_node("Add", ["held", "answer_logits"], ["next_held"]),
    helper.make_node("Identity", ["observation"], ["unused"]),
]


def test_an_onnx_model_remembers_and_draws_by_its_logits(folder):
    path = model(folder / "keeping.onnx", inputs=[SEEN, MASK, HELD], outputs=[SAID, NEXT], nodes=KEEPING)
    actor = OnnxActor(Path(path), RECALL)
    assert len(actor.identity) == 64
    masks = {"answer": np.array([[1, 0, 0, 0, 0], [0, 1, 1, 1, 1]], dtype=bool)}
    memory = (None, None)
    for _ in range(3):
        reply = actor.act(Batch(np.zeros((2, 6), np.float32), masks, memory))
        memory = reply.memory
    assert memory[0]["held"].tolist() == [3, 0, 0, 0, 0]
    assert memory[1]["held"].tolist() == [0, 3, 3, 3, 3]
    fresh = actor.act(Batch(np.zeros((2, 6), np.float32), masks, (None, memory[1])))
    assert fresh.memory[0]["held"].tolist() == [1, 0, 0, 0, 0], "one that begins has zeros beside one that goes on"
    policy, random = open_policy(RECALL, path), resolve_policy("recall", "random")
    assert play_series("recall", policy, random, matches=4, seed=0).reasons == {"answer": 4}


@pytest.mark.parametrize(
    ("inputs", "values"),
    [
        (
            [("observation", FLOAT, ["B", 7]), MASK, HELD],
            ("observation", ["B", 7]),
        ),
        ([("observation", FLOAT, [1, 6]), MASK, HELD], ("observation",)),
        ([("seen", FLOAT, ["B", 6]), MASK, HELD], ("observation", 6)),
        ([SEEN, ("mask_answer", BOOL, ["B", 4]), ("held", FLOAT, ["B", 4])], ("mask_answer", ["B", 4])),
        ([SEEN, MASK, ("held", FLOAT, ["B", "H"])], ("held",)),
        ([SEEN, MASK, HELD, ("more", FLOAT, ["B", 2])], ("next_more",)),
        ([SEEN, MASK, HELD, ("text", TensorProto.STRING, ["B", 2])], ("text", "tensor(string)")),
    ],
)
def test_an_onnx_model_with_other_inputs_is_refused_and_they_are_named(folder, inputs, values):
    last = helper.make_node("Identity", [inputs[0][0]], ["unused"])
    path = model(folder / "odd.onnx", inputs=inputs, outputs=[SAID, NEXT], nodes=[*KEEPING[:2], last])
    with refused("external-policy-failed", *values):
        open_policy(RECALL, path)


def test_broken_onnx_model_is_rejected(folder):
    path = model(folder / "headless.onnx", inputs=[SEEN, MASK, HELD], outputs=[NEXT], nodes=KEEPING)
    random = resolve_policy("recall", "random")
    with refused("external-policy-failed", "answer"):
        play_series("recall", open_policy(RECALL, path), random, matches=2, seed=0)
    (folder / "noise.onnx").write_bytes(b"noise")
    with refused("external-policy-failed", "ONNX"):
        open_policy(RECALL, "noise.onnx")


def test_missing_onnxruntime_error_names_the_extra(folder, monkeypatch):
    (folder / "any.onnx").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with refused("external-policy-failed", "echelon-league[onnx]"):
        open_policy(RECALL, "any.onnx")


# --- arena match -----------------------------------------------------------------------------------------------------


def run_arena(*arguments):
    with pytest.raises(SystemExit) as left:
        main(arguments)
    return left.value.code


def test_match_command_records_external_policies_and_reports_forfeits(folder, capsys):
    shutil.copy(EXAMPLES / "recaller.py", folder)
    script(folder, "rogue_bot.py", "def rogue(batch):\n    return {'answer': [9] * len(batch)}\n")
    first = folder / "first.replay.json.gz"
    plain = ("--environment", "recall", "--matches", "20", "--timeout", "600", "--json")
    assert not run_arena("match", "recaller:recaller", "random", *plain, "--record", str(first))
    assert json.loads(capsys.readouterr().out)["score"] > 0.7
    assert first.exists()
    second = folder / "second.replay.json.gz"
    assert not run_arena("match", "rogue_bot:rogue", "random", *plain, "--record", str(second))
    out, err = capsys.readouterr()
    assert json.loads(out)["reasons"] == {"forfeit": 20}
    assert err.count("rogue_bot:rogue: answer is 9") == 3
    assert not second.exists()


def test_tournament_accepts_external_policies_exploitability_rejects_them(folder, capsys):
    shutil.copy(EXAMPLES / "recaller.py", folder)
    assert not run_arena(
        "tournament", "recaller:recaller", "random", "--environment", "recall", "--matches", "4", "--json"
    )
    assert json.loads(capsys.readouterr().out)["items"][0]["player"] == "recaller:recaller"
    assert run_arena("exploitability", "recaller:recaller", "--environment", "openspiel:kuhn_poker") == 2
    assert "is an external policy" in capsys.readouterr().err
