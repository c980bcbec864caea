"""Tables of bodies for pandas and NumPy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from arena.extras import is_installed, missing_package

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from pydantic import BaseModel


def rows(items: Iterable[BaseModel]) -> pd.DataFrame:
    """Return a table with one row per item; a nested body has a column per field, such as `home.name`."""
    _require_pandas()
    import pandas as pd

    return pd.json_normalize([item.model_dump() for item in items])


def columns(values: Mapping[str, Any], index: Iterable[Any]) -> pd.DataFrame:
    """Return a table of named columns."""
    _require_pandas()
    import pandas as pd

    return pd.DataFrame(dict(values), index=list(index))


def matrix(values: list[list[float]], names: list[str]) -> pd.DataFrame:
    """Return a matrix with names on both axes."""
    _require_pandas()
    import pandas as pd

    return pd.DataFrame(values, index=names, columns=names)


def array(values: list[list[float]]) -> np.ndarray:
    """Return a matrix as an array of 64-bit floats."""
    import numpy as np

    return np.array(values, dtype=np.float64).reshape(len(values), -1)


def _require_pandas() -> None:
    if not is_installed("pandas"):
        raise missing_package("pandas", "`to_pandas`")
