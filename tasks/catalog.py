"""What there is to measure on: reads `deployments/`, and says in one sentence what is wrong with a file."""

import os
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, StringConstraints, ValidationError

from tasks.analysis.model import Machine
from tasks.errors import GridbenchError
from workloads.harness.errors import WorkloadsError
from workloads.harness.suite import Suite, load_suite, suite_names

DEPLOYMENTS = Path(os.environ.get("GRIDBENCH_DEPLOYMENTS") or Path(__file__).parents[1] / "deployments")
Model = TypeVar("Model", bound="Strict")


class Strict(BaseModel):
    """Data from a file: an unknown key is a mistake, never ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Price(Strict):
    """A price is a fact with a source, or an assumption that says so."""

    usd_per_hour: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    purchase: Literal["on-demand", "spot", "reserved", "assumption"]
    source: Annotated[str, StringConstraints(min_length=1)]
    date: date
    region: str | None = None

    @property
    def note(self) -> str:
        """In words, such as `on-demand, us-east-1, 2026-07-20: AWS price list`."""
        facts = ["stated assumption" if self.purchase == "assumption" else self.purchase, self.region]
        return f"{', '.join(fact for fact in [*facts, self.date.isoformat()] if fact)}: {self.source}"


class Hardware(Strict):
    """A machine shape at a provider, with a price: one YAML file in `deployments/hardware/`.

    Attributes:
        pool: the Prefect work pool that runs its lane, by the deployment `lane/<pool>`.
        box: machines of the same box share one computer, so their lanes take turns; the name by default.
        threads: CPU threads; None takes the physical cores that the job may use.
        gpus: accelerators in it; 0 for a CPU machine.
        gpu: model, a key of `deployments/gpus.yaml`; None where it isn't known before the run.
        job_variables: passed to the work pool with each lane job.
        cells_per_job: how many repeats one job measures at most; None for all that wait.
        command: what runs one repeat on the box, before the arguments of `python -m workloads`.
    """

    name: str
    title: str
    pool: str
    device: Literal["cpu", "cuda"]
    price: Price
    box: str | None = None
    threads: PositiveInt | None = None
    gpus: Annotated[int, Field(ge=0)] = 0
    gpu: str | None = None
    job_variables: dict[str, Any] = {}
    cells_per_job: PositiveInt | None = None
    command: tuple[str, ...] | None = None

    def machine(self) -> Machine:
        """The facts that a comparison needs."""
        peaks = load_gpus().get(self.gpu) if self.gpu else None
        return Machine(
            name=self.name,
            usd_per_hour=self.price.usd_per_hour,
            price_note=self.price.note,
            devices=self.gpus,
            peak_flops=tuple((name, t * 1e12) for name, t in (peaks.tflops if peaks else {}).items()),
            peak_bytes_per_s=peaks.gb_per_s * 1e9 if peaks else None,
        )


class GpuPeaks(Strict):
    """Dense peak rates of a GPU model in TFLOP/s by precision, and its memory bandwidth in GB/s."""

    tflops: dict[str, float]
    gb_per_s: float
    source: str


def hardware_names(folder: Path = DEPLOYMENTS) -> list[str]:
    """The hardware that there is."""
    return sorted(path.stem for path in (folder / "hardware").glob("*.yaml"))


def load_hardware(name: str, folder: Path = DEPLOYMENTS) -> Hardware:
    """Read a piece of hardware by its name.

    Raises:
        GridbenchError: there is none, or its file has a mistake.
    """
    known = hardware_names(folder)
    if name not in known:
        raise GridbenchError(f"hardware {name!r} is unknown; {_hint(name, known)}")
    path = folder / "hardware" / f"{name}.yaml"
    found = _validated(Hardware, _mapping(path) | {"name": name}, f"hardware file {path.name}")
    if found.gpu and found.gpu not in (gpus := load_gpus(folder)):
        hint = _hint(found.gpu, [*gpus])
        raise GridbenchError(f"hardware file {path.name}: gpu {found.gpu!r} is unknown; {hint}")
    return found


def load_gpus(folder: Path = DEPLOYMENTS) -> dict[str, GpuPeaks]:
    """Peak rates by GPU model, from `gpus.yaml`.

    Raises:
        GridbenchError: the file has a mistake.
    """
    raw = _mapping(folder / "gpus.yaml")
    return {name: _validated(GpuPeaks, entry, f"gpus.yaml, {name}") for name, entry in raw.items()}


def load_suite_checked(name: str, folder: Path = DEPLOYMENTS) -> Suite:
    """Read a suite by its name or path.

    Raises:
        GridbenchError: there is none, or its file has a mistake.
    """
    try:
        return load_suite(name, folder / "suites")
    except WorkloadsError as error:
        raise GridbenchError(str(error)) from None


def suites(folder: Path = DEPLOYMENTS) -> list[str]:
    """The suites that there are."""
    return suite_names(folder / "suites")


def _hint(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(known) or 'none'}"


def _mapping(path: Path) -> dict[str, Any]:
    try:
        raw = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        words = " ".join(str(error).split())
        raise GridbenchError(f"{path.name} can't be read: {words}") from None
    if not isinstance(raw, dict):
        raise GridbenchError(f"{path.name} holds {type(raw).__name__}, expected keys with values")
    return raw


def _validated(kind: type[Model], raw: dict[str, Any], where: str) -> Model:
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        raise GridbenchError(f"{where}: {first_mistake(error)}") from None


def first_mistake(error: ValidationError) -> str:
    """The first mistake that pydantic found: field, value, and what would be right."""
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"])) or "value"
    if first["type"] == "extra_forbidden":
        return f"the key {field!r} is unknown"
    if first["type"] == "missing":
        return f"the key {field!r} is missing"
    message = first["msg"][0].lower() + first["msg"][1:]
    return f"{field} is {first['input']!r}: {message}"
