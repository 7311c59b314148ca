"""The accelerators of accelerators.yaml: which machine has them, and which driver they get."""

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
    """A part of the file; an unknown key is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Shape(Entry):
    """A machine with some number of an accelerator.

    Attributes:
        machine: Compute Engine's machine type.
        spot_only: it can't be rented on demand.
    """

    machine: str
    spot_only: bool = False


class Accelerator(Entry):
    """A GPU model by GKE's name.

    Attributes:
        gpu: its key in `deployments/gpus.yaml` and in the price facts.
        shapes: by the number of GPUs in one machine.
        driver: which of the drivers that GKE installs.
        unsupported: the reason why GKE has it no more; None if it is available.
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
    """Read all accelerators by GKE's name, including those that can't be had."""
    return Accelerators.model_validate(yaml.safe_load(path.read_text())).accelerators


def shape_of(name: str, gpus: int, spot: bool) -> tuple[Accelerator, Shape]:
    """Return the accelerator of that name, and the machine with so many of it.

    Raises:
        GkeError: it is unknown, no longer available, or not in this number or on demand.
    """
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
