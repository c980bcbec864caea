"""Compiled in a process of its own: shapes are not checked there, as in every run outside of these tests."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from refused import assert_names

from trainer.compiled import CompiledOrEager, compile_graph

COMPARE = Path(__file__).parents[1] / "support" / "compiled_update.py"


@pytest.mark.integration
@pytest.mark.holds("G10", "I6")
def test_loss_and_decisions_compile_without_graph_breaks_and_with_the_same_result():
    # The tracer reads the gradient of the core's output and hides the warning, but not if it is an error.
    warnings = ["error::UserWarning", "ignore:The .grad attribute of a Tensor:UserWarning"]
    options = [word for each in warnings for word in ("-W", each)]
    command = [sys.executable, *options, str(COMPARE), "eager", "16", "64"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=280)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["breaks"] == 0
    assert set(found["answers"]) == {"synthetic 16", "synthetic 64", "mech-pack 16", "mech-pack 64"}
    for answer in found["answers"].values():
        assert not answer["fell_back"]
        assert not answer["decisions_fell_back"]
        assert answer["same_keys"]
        assert answer["same_figures"]
        assert answer["furthest"] < 1e-6


def test_too_many_graphs_fall_back_to_eager_with_one_warning(caplog):
    def multiply(tensor, times):  # a graph for every number of times
        for _ in range(times):
            tensor = tensor * 2.0
        return tensor

    one = torch.ones(())
    compiled = CompiledOrEager(compile_graph(multiply, "eager"), "eager", multiply)
    with torch._dynamo.config.patch(recompile_limit=2):
        found = [float(compiled(one, times)) for times in range(6)]
    assert found == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    assert compiled.fell_back
    assert ["2 graphs" in record.getMessage() for record in caplog.records if record.name == "trainer.compiled"] == [
        True
    ]


def test_function_that_is_no_single_graph_falls_back_to_eager(caplog):
    def double(tensor):
        torch._dynamo.graph_break()
        return tensor * 2.0

    compiled = CompiledOrEager(compile_graph(double, "eager"), "eager", double, "decisions")
    assert float(compiled(torch.ones(()))) == 2.0
    assert compiled.fell_back
    assert_names(caplog.text, "ppo.compile", "Unsupported", "decisions")


def test_update_falls_back_to_eager_if_the_backend_fails(play, never, monkeypatch, caplog):
    """As inductor does where there is no C++ compiler."""
    from torch._dynamo.exc import BackendCompilerFailed  # here, because it loads the compiler, which takes a second

    def compiled(function, **_):
        def failing(*_, **__):
            raise BackendCompilerFailed("inductor", RuntimeError("no C++ compiler"), None)

        return failing

    monkeypatch.setattr(torch, "compile", compiled)
    plain, failed = play(), play(ppo={"compile": "inductor"})
    for played in (plain, failed):
        played.learner.learn(played.collect(), never)
    assert_names(caplog.text, "ppo.compile", "inductor", "BackendCompilerFailed")
    assert len(caplog.records) == 1
    for name, tensor in plain.learner.network.named_parameters():
        assert torch.equal(failed.learner.network.get_parameter(name), tensor)
