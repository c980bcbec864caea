"""For every test: shapes in annotations are checked, torch keeps to one thread, no example is timed."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis
from jaxtyping import install_import_hook

hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")
install_import_hook(["arena.policies", "arena.environments", "trainer"], "shape_check.check")
