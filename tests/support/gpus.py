"""What tests on a GPU share."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from trainer.config.loading import resolve
from trainer.runtime.benchmark.bench import Bench
from trainer.runtime.benchmark.synthetic_env import SyntheticSpec
from trainer.runtime.torch_setup import configure_torch

DEVICE = "cuda"


def needs_gpus(count):
    """Marks of a test that runs on so many GPUs, and is skipped where there are fewer."""
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    reason = f"needs {count} GPU{'s' * (count > 1)}, and torch sees {found} (torch.cuda.is_available())"
    return [pytest.mark.gpu, pytest.mark.skipif(found < count, reason=reason)]


def bench_of(game, *settings, opponents=0):
    """A learner on the GPU with environments of a game, without a league."""
    config = resolve(game, None, [f"run.device={DEVICE}", *settings])
    configure_torch(config.run)
    return Bench(config, SyntheticSpec(), opponents=opponents)


def digest(network):
    """Of all weights."""
    found = hashlib.sha256()
    for parameter in network.parameters():
        found.update(parameter.detach().cpu().numpy().tobytes())
    return found.hexdigest()


def run_python(*arguments):
    """Run Python, which finds this module too; what it printed, and what it said on the side."""
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run([sys.executable, *arguments], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout, done.stderr
