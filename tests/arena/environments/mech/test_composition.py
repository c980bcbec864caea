import math
import subprocess
import sys

import pytest

from arena.environments.mech.config.scenario import PACK, CompositionError, MechConfig


@pytest.mark.parametrize("limit_s", [math.nan, math.inf])
def test_invalid_time_limit_is_rejected(limit_s: float):
    with pytest.raises(CompositionError) as error:
        MechConfig("mine", (PACK,), map_side=60, limit_s=limit_s)

    assert str(error.value) == f"mine: limit_s {limit_s}: give a positive multiple of 0.25 s"


@pytest.mark.integration
@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ("map_side=60.0", "map_side 60.0: give an even number of metres from 40 to 200"),
        ("map_side='60'", "map_side '60': give an even number of metres from 40 to 200"),
        ("map_side=60, terrain='open'", "terrain 'open': give one of Terrain.OPEN, Terrain.BROKEN"),
        (
            "map_side=60, observation_mode='all'",
            "observation_mode 'all': give one of ObservationMode.PARTIAL, ObservationMode.FULL",
        ),
    ],
)
def test_wrong_types_are_refused_and_never_taken_for_a_default(arguments: str, refusal: str):
    """In a process of its own: here, types are checked before the arena sees them."""
    script = (
        "from arena.environments.mech.config.scenario import CompositionError, MechConfig\n"
        f"try: MechConfig('mine', (('scout',),), limit_s=60.0, {arguments})\n"
        "except CompositionError as error: print(error)"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout == f"mine: {refusal}\n"
