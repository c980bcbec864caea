"""What every section of settings is."""

from pydantic import BaseModel, ConfigDict


class StrictModel(BaseModel):
    """A group of keys. Unknown keys are refused, and so are numbers that are not finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
