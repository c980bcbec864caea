"""Loading Warp and its kernels, in processes of their own."""

import subprocess
import sys

import pytest
from refused import assert_names

pytestmark = pytest.mark.integration


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_missing_warp_is_a_one_line_error():
    without_warp = "import sys; sys.modules['warp'] = None; from arena.cli import main; "

    ran = run_python(without_warp + "main(['bench', '--environment', 'mech-duel'])")

    assert ran.returncode == 78
    assert ran.stderr.startswith("arena: ")
    assert_names(ran.stderr, "echelon-league[train]")
    assert ran.stderr.count("\n") == 1


def test_cache_that_cannot_be_written_is_named():
    code = "import os; os.environ['WARP_CACHE_PATH'] = '/dev/null/cache'; from arena.cli import main; "

    ran = run_python(code + "main(['bench', '--environment', 'mech-duel'])")

    assert ran.returncode == 78
    assert ran.stderr.startswith("arena: ")
    assert "/dev/null/cache" in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_making_an_environment_prints_nothing():
    ran = run_python("from arena.environments import make; make('mech-duel', num_envs=2).reset()")

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
