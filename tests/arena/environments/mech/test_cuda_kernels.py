"""The kernels of a GPU on a machine without one: compiled for a GPU, and run stage by stage on the CPU."""

from functools import partial

import pytest
import torch

from arena.environments import make
from arena.environments.mech.engine import arrays, cuda_kernels
from arena.environments.mech.engine.cuda import CudaEngine
from arena.environments.mech.kernels import wp
from arena.policies.scripted import RandomPolicy

pytestmark = pytest.mark.slow  # kernels are compiled

H100 = 90
"""Compute capability of the H100 and the H200, times ten."""


def test_every_stage_of_a_decision_compiles_for_a_gpu(tmp_path):
    """Warp brings its compiler, and PTX needs no driver."""
    stages = set(wp.get_module(cuda_kernels.__name__).kernels)
    assert {"admit", "integrate", "fire", "observe", "reopen"} < stages
    [artifact] = wp.compile_aot_module(cuda_kernels, arch=H100, use_ptx=True, module_dir=tmp_path)
    entries = [line for line in artifact.read_text().splitlines() if ".entry" in line]
    assert {stage for stage in stages if any(f" {stage}_" in entry for entry in entries)} == stages


class StagesOnCpu(CudaEngine):
    """The launches of a GPU's graphs, one after the other on the CPU."""

    def _capture(self, structs, launch):
        return partial(launch, structs)

    def _replay(self, graph):
        graph()
        return arrays.copy_view(self._view.tensors)


@pytest.mark.parametrize(("game", "matches", "decisions"), [("mech-duel", 6, 500), ("mech-pack", 3, 60)])
def test_stages_of_a_gpu_play_the_same_matches_as_the_engine_of_the_cpu(game, matches, decisions):
    plain, staged = (make(game, num_envs=matches, device="cpu", seed=1) for _ in range(2))
    staged._stepping = StagesOnCpu(staged._structs, staged.spec, matches, staged.device)
    player, agents, ended = RandomPolicy(plain.spec.heads), plain.spec.num_agents, 0
    rng = torch.Generator().manual_seed(0)
    seen = plain.reset()
    assert torch.equal(staged.reset().values, seen.values)
    for _ in range(decisions):
        rows = seen.side(slice(0, agents))
        chosen, _ = player.act(rows, (), torch.zeros_like(rows.active), rng)
        actions = {name: each.reshape(matches, agents, *each.shape[1:]) for name, each in chosen.items()}
        one, other = plain.step(actions), staged.step(actions)
        for shown, again in ((one.observation, other.observation), (one.final_observation, other.final_observation)):
            assert torch.equal(shown.values, again.values)
            assert torch.equal(shown.active, again.active)
            assert all(torch.equal(mask, again.masks[name]) for name, mask in shown.masks.items())
        for name in ("reward", "terminated", "truncated"):
            assert torch.equal(getattr(one, name), getattr(other, name)), name
        assert torch.equal(one.outcome.score, other.outcome.score)
        seen, ended = one.observation, ended + int(one.ended.sum())
    assert game != "mech-duel" or ended > matches
