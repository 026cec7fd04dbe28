"""What all settings of steps share: they are declared once, for ``labels.yaml``, the command line and the manifest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo


class Settings(BaseModel):
    """Base of the settings of a step.

    A field's name is its key in ``labels.yaml``, with hyphens its option; its description is the option's help.
    ``json_schema_extra={"option": "…"}`` gives the option another name.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


def _beside_plan(path: Path, info: ValidationInfo) -> Path:
    return path if info.context is None else info.context["folder"] / path


def _file_beside_plan(text: str, info: ValidationInfo) -> str:
    """Text that may be a path: changed only where a plan is read and the file is there."""
    file = Path(text) if info.context is None else info.context["folder"] / text
    return str(file) if info.context is not None and file.is_file() else text


Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]
PlanPath = Annotated[Path, AfterValidator(_beside_plan)]  # in a plan relative to its folder
FileOrName = Annotated[str, AfterValidator(_file_beside_plan)]  # a file beside the plan, or else a name
