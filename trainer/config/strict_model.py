"""Base class of the sections of settings."""

from pydantic import BaseModel, ConfigDict


class StrictModel(BaseModel):
    """Section of settings. It rejects unknown keys and numbers that are not finite; docstrings describe the keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)
