"""The accelerators of accelerators.yaml: their machines and drivers."""

from functools import cache
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from infra.gke.errors import GkeError
from infra.hint import hint

FILE = Path(__file__).with_name("accelerators.yaml")
Driver = Literal["LATEST", "DEFAULT"]


class Entry(BaseModel):
    """A part of the file; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Shape(Entry):
    """A machine with some number of an accelerator; `spot_only` if not available on demand."""

    machine: str
    spot_only: bool = False


class Accelerator(Entry):
    """A GPU model by GKE's name.

    Attributes:
        gpu: its key in `deployments/gpus.yaml` and in the price facts.
        shapes: by the number of GPUs in one machine.
        unsupported: why GKE no longer has it.
    """

    gpu: str
    shapes: dict[PositiveInt, Shape] = Field(default_factory=dict)
    driver: Driver = "LATEST"
    unsupported: str | None = None


class Accelerators(Entry):
    """The whole file."""

    accelerators: dict[str, Accelerator]


@cache
def accelerators(path: Path = FILE) -> dict[str, Accelerator]:
    return Accelerators.model_validate(yaml.safe_load(path.read_text())).accelerators


def shape_of(name: str, gpus: int, spot: bool) -> tuple[Accelerator, Shape]:
    models = accelerators()
    if name not in models:
        raise GkeError(f"--accelerator {name!r} is unknown; {hint(name, sorted(models))}")
    model = models[name]
    if model.unsupported:
        raise GkeError(f"--accelerator {name} is unsupported: {model.unsupported}")
    if gpus not in model.shapes:
        counts = ", ".join(map(str, model.shapes))
        raise GkeError(
            f"--accelerator {name}:{gpus}: no machine has {gpus} of it; there are machines with {counts}"
        )
    shape = model.shapes[gpus]
    if shape.spot_only and not spot:
        whole = [count for count, each in model.shapes.items() if not each.spot_only]
        other = f", or --accelerator {name}:{min(whole)}" if whole else ""
        raise GkeError(f"{shape.machine} ({name}:{gpus}) can't be rented on demand: add --spot{other}")
    return model, shape
