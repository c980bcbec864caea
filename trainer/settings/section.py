"""What every section of settings is."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A group of keys. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)
