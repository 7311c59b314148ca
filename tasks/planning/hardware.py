"""Machines in `deployments/`."""

import os
from collections.abc import Mapping
from datetime import UTC, date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from tasks.errors import GridbenchError
from tasks.planning.job_variables import fault_in
from tasks.planning.rent_terms import RentTerms
from tasks.pricing.facts import Fact, load_facts
from tasks.pricing.price import Price, PriceOf, flagged, named, price_of
from tasks.results.model import Machine
from tasks.schema import MOST_GPUS, Count, Seconds, Strict, Waited, read_mapping, validated
from workloads.harness.engine.device import CAPABILITY
from workloads.harness.records.errors import WorkloadsError, hint
from workloads.harness.repeat.suite import Suite, load_suite, suite_names

DEPLOYMENTS = Path(os.environ.get("GRIDBENCH_DEPLOYMENTS") or Path(__file__).parents[2] / "deployments")

RENTED_POOL = "ssh"
NOT_OF_A_JOB = ("name", "title", "threads")  # fields that each repeat contains
AUTO = "auto"  # in place of a reference's command: the machine makes its own

Gigabytes = Annotated[float, Field(gt=0, le=1e6)]
Rate = Annotated[float, Field(gt=0, le=1e9)]


def _by_itself(reference: object) -> object:
    """Return the word `auto` as a command."""
    return (AUTO,) if reference == AUTO else reference


class Hardware(Strict):
    """A machine at a provider, with a price: a file in `deployments/hardware/`.

    Attributes:
        pool: of the deployment `lane/<pool>`.
        box: computer, whose lanes take turns. The name by default.
        threads: by default the physical cores that the job can use.
        gpus: 0 for a CPU machine.
        gpu: a key of `deployments/gpus.yaml`.
        gpu_memory_gb: of each, if the model has several sizes.
        price: stated, or a `PriceOf` in the snapshot of facts.
        memory_gb: the host's.
        instance_type: that the machine must report.
        start_s: from submission to first measurement.
        idle_s: paid after its last job, until removal.
        start_within_s: longest wait for a machine, once a worker has the job.
        cells_per_job: most repeats in a job; None for all.
        shape: hardware of which it is one of several boxes.
        command: for one repeat; arguments of `python -m workloads` follow.
        reference: the same in a frozen environment of `gridbench reference`, for controls; `auto` for the one
            that its first night freezes.
        unsupported: why it can't be measured on.
    """

    name: str
    title: str
    pool: str
    device: Literal["cpu", "cuda"]
    price: Price
    box: str | None = None
    threads: Annotated[int, Field(ge=1, le=10_000)] | None = None
    gpus: Annotated[int, Field(ge=0, le=MOST_GPUS)] = 0
    gpu: str | None = None
    gpu_memory_gb: Gigabytes | None = None
    memory_gb: Gigabytes | None = None
    job_variables: dict[str, Any] = Field(default_factory=dict)
    instance_type: str | None = None
    start_s: Waited = 10.0  # on a machine that is up: Prefect's imports and the first poll
    idle_s: Seconds = 0.0
    start_within_s: Waited = 900.0
    cells_per_job: Count | None = None
    rent: RentTerms | None = None
    shape: str | None = None
    command: tuple[str, ...] | None = None
    reference: Annotated[tuple[str, ...], Field(min_length=1), BeforeValidator(_by_itself)] | None = None
    unsupported: str | None = None

    @property
    def job_key(self) -> str:
        """Return a text shared by entries that one job can measure in turns.

        These are on one box, without rent, and differ only in `NOT_OF_A_JOB` and their price's source.
        """
        if self.box is None or self.rent:
            return self.name
        shared = self.model_dump_json(exclude={"price": True} | dict.fromkeys(NOT_OF_A_JOB, True))
        return f"{self.price.usd_per_hour} {shared}"

    @model_validator(mode="after")
    def _is_rented_or_there(self) -> Self:
        if self.rent and self.pool != RENTED_POOL:
            raise ValueError(f"pool is {self.pool!r}: a rented machine is reached by pool {RENTED_POOL}")
        if self.rent and "hosts" in self.job_variables:
            raise ValueError("job_variables.hosts is set: a machine has hosts or is rented (rent), not both")
        return self

    def machine(self) -> Machine:
        gpus = load_gpus() if self.gpu else {}
        peaks = gpus.get(self.gpu or "")
        return Machine(
            name=self.name,
            usd_per_hour=self.price.usd_per_hour,
            price_note=self.price.note,
            devices=self.gpus,
            peak_flops=tuple((name, t * 1e12) for name, t in (peaks.tflops if peaks else {}).items()),
            peak_bytes_per_s=peaks.gb_per_s * 1e9 if peaks else None,
            reach=peaks.reach if peaks else None,
            price_flags=self.price.flags,
            spot_usd_per_hour=self.price.spot_usd_per_hour,
            instance_type=self.instance_type,
            shape=self.shape,
            box=self.job_key if self.box else "",
            idle_s=self.idle_s,
            purchase=self.price.purchase if self.price.purchase in ("on-demand", "spot") else None,
            gpu=self.gpu,
            gpus_called=tuple(names_of(gpus).items()),
        )


class GpuPeaks(Strict):
    """A GPU model's dense peaks in TFLOP/s, memory in GB, bandwidth in GB/s.

    Attributes:
        called: words of drivers' names.
        capability: NVIDIA's compute capability.
        reach: least share that large matrix products reach, if published.
        unsupported: why it can't be measured on.
    """

    tflops: dict[str, Rate]
    gb_per_s: Rate
    memory_gb: Gigabytes
    source: str
    called: str = ""
    capability: str | None = None
    reach: Annotated[float, Field(gt=0, lt=1)] | None = None
    unsupported: str | None = None

    def computes_in(self, precision: str) -> bool:
        """Return True if unknown."""
        least = CAPABILITY.get(precision)
        if least is None or self.capability is None or precision in self.tflops:
            return True
        major, minor = map(int, self.capability.split("."))
        return (major, minor) >= least


def hardware_names(folder: Path = DEPLOYMENTS) -> list[str]:
    return sorted(path.stem for path in (folder / "hardware").glob("*.yaml"))


def load_hardware(name: str, folder: Path = DEPLOYMENTS, today: date | None = None) -> Hardware:
    """Look up a price that names facts.

    Args:
        folder: of `hardware/`, `gpus.yaml` and `prices.yaml`.
        today: for the age of prices; in UTC by default.

    Raises:
        GridbenchError: no such file, or a mistake in it.
    """
    names = hardware_names(folder)
    if "://" in name:
        raise GridbenchError(
            f"hardware {name!r} is an address: `gridbench run`, `train`, `fits` and `bisect` detect such "
            "a box; a night, and a run from the UI, need a file in deployments/hardware (docs/ssh.md)"
        )
    if name not in names:
        raise GridbenchError(f"hardware {name!r} is unknown; {hint(name, names)}")
    path = folder / "hardware" / f"{name}.yaml"
    where, day, facts = f"hardware file {path.name}", today or datetime.now(UTC).date(), load_facts(folder)
    raw = read_mapping(path) | {"name": name}
    raw |= _rented(raw)
    if named(raw.get("price")):
        raw["price"] = _looked_up(raw, facts, day, where)
    hardware = validated(Hardware, raw, where)
    if fault := fault_in(hardware.job_variables):
        raise GridbenchError(f"{where}: {fault}")
    gpus = load_gpus(folder) if hardware.gpu else {}
    if hardware.gpu and hardware.gpu not in gpus:
        raise GridbenchError(f"{where}: gpu {hardware.gpu!r} is unknown; {hint(hardware.gpu, [*gpus])}")
    unsupported = hardware.unsupported or (gpus[hardware.gpu].unsupported if hardware.gpu else None)
    price = flagged(hardware.price, hardware.gpus, facts, day)
    return hardware.model_copy(update={"price": price, "unsupported": unsupported})


def _rented(raw: dict[str, Any]) -> dict[str, Any]:
    """Return `rent` in full: `rent: PROVIDER` means the price's instance."""
    given, price = raw.get("rent"), raw.get("price")
    rent = {"provider": given} if isinstance(given, str) else given
    priced = price.get("instance") if isinstance(price, dict) else None
    if not isinstance(rent, dict) or "instances" in rent or not priced:
        return {"rent": rent} if given is not None else {}
    return {"rent": {**rent, "instances": [priced]}}


def _looked_up(raw: dict[str, Any], facts: tuple[Fact, ...], today: date, where: str) -> Price:
    reference, gpus = validated(PriceOf, raw["price"], f"{where}, price"), raw.get("gpus", 0)
    if reference.gpu and gpus != reference.count:
        priced = f"{reference.count} {reference.gpu}"
        raise GridbenchError(f"{where}: gpus is {gpus!r} but its price is of {priced}")
    try:
        return price_of(reference, facts, today)
    except GridbenchError as error:
        raise GridbenchError(f"{where}: {error}") from None


def load_gpus(folder: Path = DEPLOYMENTS) -> dict[str, GpuPeaks]:
    """Return peaks by model, from `gpus.yaml`.

    Raises:
        GridbenchError: the file has a mistake.
    """
    path = folder / "gpus.yaml"
    return _gpus(path, path.stat().st_mtime_ns if path.exists() else 0)


@lru_cache
def _gpus(path: Path, changed_at_ns: int) -> dict[str, GpuPeaks]:
    """Read only changed files: predictions of all offers need them hundreds of times."""
    raw = read_mapping(path)
    return {name: validated(GpuPeaks, entry, f"gpus.yaml, {name}") for name, entry in raw.items()}


def names_of(gpus: Mapping[str, GpuPeaks]) -> dict[str, str]:
    """Return drivers' names by model, if known."""
    return {model: peaks.called for model, peaks in gpus.items() if peaks.called}


def load_suite_checked(name: str, folder: Path = DEPLOYMENTS) -> Suite:
    """Read a suite by name or path.

    Raises:
        GridbenchError: no such suite, or a mistake in its file.
    """
    try:
        return load_suite(name, folder / "suites")
    except WorkloadsError as error:
        raise GridbenchError(str(error)) from None


def suites(folder: Path = DEPLOYMENTS) -> list[str]:
    return suite_names(folder / "suites")
