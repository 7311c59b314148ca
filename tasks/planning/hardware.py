"""What there is to measure on: reads `deployments/`, and says in one sentence what is wrong with a file."""

import os
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from tasks.errors import GridbenchError
from tasks.planning.rent_terms import RentTerms
from tasks.pricing.facts import Fact, load_facts
from tasks.pricing.price import Price, PriceOf, flagged, named, price_of
from tasks.results.model import Machine
from tasks.schema import Strict, hint, read_mapping, validated
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.repeat.suite import Suite, load_suite, suite_names

DEPLOYMENTS = Path(os.environ.get("GRIDBENCH_DEPLOYMENTS") or Path(__file__).parents[2] / "deployments")

RENTED_POOL = "ssh"


class Hardware(Strict):
    """A machine shape at a provider, with a price: one YAML file in `deployments/hardware/`.

    Attributes:
        pool: the Prefect work pool that runs its lane, by the deployment `lane/<pool>`.
        box: machines of the same box share one computer, so their lanes take turns; the name by default.
        threads: CPU threads; None takes the physical cores that the job may use.
        gpus: accelerators in it; 0 for a CPU machine.
        gpu: model, a key of `deployments/gpus.yaml`; None where it isn't known before the run.
        price: stated here, or a `PriceOf` that the snapshot of facts has the amount for.
        memory_gb: the host's; None where it isn't known before the run. A GPU's is in `gpus.yaml`.
        job_variables: passed to the work pool with each lane job.
        instance_type: what the machine itself must say that it is, so that no other is measured in its place.
        start_s: from a job's submission to its first measurement: boot, image pull and imports, where needed.
        idle_s: how long the machine is paid for after its last job, until somebody takes it away.
        start_within_s: how long a job that a worker has taken may wait for its machine.
        cells_per_job: how many repeats one job measures at most; None for all that wait.
        rent: how it is rented for as long as its lane needs it; None for a machine that is there.
        shape: of which hardware it is one box of several; None where it is none.
        command: what runs one repeat on the box, before the arguments of `python -m workloads`.
        reference: likewise in a frozen environment, as `gridbench reference` makes one, for the controls of
            nights; None where they have none.
        unsupported: why it can't be measured on any more, or not yet; None where it can.
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
    memory_gb: PositiveFloat | None = None
    job_variables: dict[str, Any] = Field(default_factory=dict)
    instance_type: str | None = None
    start_s: PositiveFloat = 10.0  # on a machine that is up: Prefect's imports and the first poll
    idle_s: NonNegativeFloat = 0.0
    start_within_s: PositiveFloat = 900.0
    cells_per_job: PositiveInt | None = None
    rent: RentTerms | None = None
    shape: str | None = None
    command: tuple[str, ...] | None = None
    reference: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    unsupported: str | None = None

    @model_validator(mode="after")
    def _is_rented_or_there(self) -> Self:
        if self.rent and self.pool != RENTED_POOL:
            raise ValueError(f"pool is {self.pool!r}: what is rented is reached by pool {RENTED_POOL}")
        if self.rent and "hosts" in self.job_variables:
            raise ValueError("job_variables.hosts is set: a machine either has hosts or is rented (rent)")
        return self

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
            price_flags=self.price.flags,
            spot_usd_per_hour=self.price.spot_usd_per_hour,
            instance_type=self.instance_type,
            shape=self.shape,
            idle_s=self.idle_s,
            purchase=self.price.purchase if self.price.purchase in ("on-demand", "spot") else None,
        )


class GpuPeaks(Strict):
    """Dense peak rates of a GPU model in TFLOP/s by precision, its memory bandwidth in GB/s, its memory."""

    tflops: dict[str, float]
    gb_per_s: float
    memory_gb: PositiveFloat
    source: str


def hardware_names(folder: Path = DEPLOYMENTS) -> list[str]:
    """The hardware that there is."""
    return sorted(path.stem for path in (folder / "hardware").glob("*.yaml"))


def load_hardware(name: str, folder: Path = DEPLOYMENTS, today: date | None = None) -> Hardware:
    """Read a piece of hardware by its name; a price that names facts is looked up in the folder's snapshot.

    Args:
        name: of its file, without the ending.
        folder: with `hardware/`, `gpus.yaml` and `prices.yaml`.
        today: the day that prices are old against, UTC's by default.

    Raises:
        GridbenchError: there is none, or its file has a mistake.
    """
    known = hardware_names(folder)
    if name not in known:
        raise GridbenchError(f"hardware {name!r} is unknown; {hint(name, known)}")
    path = folder / "hardware" / f"{name}.yaml"
    where, day, facts = f"hardware file {path.name}", today or datetime.now(UTC).date(), load_facts(folder)
    raw = read_mapping(path) | {"name": name}
    raw |= _rented(raw)
    if named(raw.get("price")):
        raw["price"] = _looked_up(raw, facts, day, where)
    found = validated(Hardware, raw, where)
    if found.gpu and found.gpu not in (gpus := load_gpus(folder)):
        raise GridbenchError(f"{where}: gpu {found.gpu!r} is unknown; {hint(found.gpu, [*gpus])}")
    return found.model_copy(update={"price": flagged(found.price, found.gpus, facts, day)})


def _rented(raw: dict[str, Any]) -> dict[str, Any]:
    """What `rent: PROVIDER`, or a rent without instances, stands for: the instance that the price is of."""
    given, price = raw.get("rent"), raw.get("price")
    rent = {"provider": given} if isinstance(given, str) else given
    priced = price.get("instance") if isinstance(price, dict) else None
    if not isinstance(rent, dict) or "instances" in rent or not priced:
        return {"rent": rent} if given is not None else {}
    return {"rent": {**rent, "instances": [priced]}}


def _looked_up(raw: dict[str, Any], facts: tuple[Fact, ...], today: date, where: str) -> Price:
    """The price that a hardware file names."""
    wanted, gpus = validated(PriceOf, raw["price"], f"{where}, price"), raw.get("gpus", 0)
    if wanted.gpu and gpus != wanted.count:
        raise GridbenchError(f"{where}: gpus is {gpus!r} but its price is of {wanted.count} {wanted.gpu}")
    try:
        return price_of(wanted, facts, today)
    except GridbenchError as error:
        raise GridbenchError(f"{where}: {error}") from None


def load_gpus(folder: Path = DEPLOYMENTS) -> dict[str, GpuPeaks]:
    """Peak rates by GPU model, from `gpus.yaml`.

    Raises:
        GridbenchError: the file has a mistake.
    """
    raw = read_mapping(folder / "gpus.yaml")
    return {name: validated(GpuPeaks, entry, f"gpus.yaml, {name}") for name, entry in raw.items()}


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
