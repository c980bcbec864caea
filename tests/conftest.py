"""For every test: shapes in annotations are checked while the code runs; torch keeps to one thread."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from jaxtyping import install_import_hook

install_import_hook(["arena.policies", "arena.environments", "trainer"], "shape_check.check")
