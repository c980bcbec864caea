"""For every test: shapes in annotations are checked, torch keeps to one thread, no example is timed."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis
import pytest
import shape_check

hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")
shape_check.install(["arena.policies", "arena.environments", "trainer"])


@pytest.fixture(autouse=True)
def _checks_begin_anew() -> None:
    shape_check.begin()
