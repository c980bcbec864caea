"""A game of tensors needs the extra `vector` alone: Gymnasium's spaces, but neither PettingZoo nor JAX."""

import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[4]

PLAY = """
    import sys

    class Blocker:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in {"pettingzoo", "pygame", "rlcard", "jax", "jaxlib", "pyspiel"}:
                raise ModuleNotFoundError(f"blocked: {name}", name=name)

    sys.meta_path.insert(0, Blocker())
    sys.path.insert(0, "examples")

    from arena.play.series import play_series, resolve_policy

    random = resolve_policy("tug:Tug", "random")
    print(len(play_series("tug:Tug", random, random, matches=4, seed=0).matches))
"""


def test_a_tensor_game_is_played_without_pettingzoo():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PLAY)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout.strip(), done.returncode) == ("4", 0), done.stderr
