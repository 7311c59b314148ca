"""The bottleneck of a user's script."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.results.finding import Finding, Results
from tasks.results.format import capitalised, format_percent, listed
from tasks.results.repeats import Repeats
from tasks.results.summaries import mean_of, over_repeats
from tasks.results.table import Column, Parts, Quantity, Table
from tasks.results.values import Estimate
from tasks.results.wording import bytes_text, script_text, size_text
from workloads.harness.records.record import Record
from workloads.harness.records.text import script_step

PARTS = ("loader", "copy", "launch", "communication", "compute", "other")
AVOIDABLE = {
    "loader": "waits for data",
    "copy": "copies to the device",
    "launch": "waits for Python to launch the next operation",
    "communication": "exchanges gradients",
    "other": "is Python code between operators",
}
ON_CPUS = ("other",)  # only Python can be in it if the host is the device
ADVICE = {
    ("loader", "cuda"): "more loader workers, not a bigger GPU",
    ("loader", "cpu"): "data prepared beforehand or more loader workers, not a faster processor",
    ("copy", "cuda"): "pinned memory and non-blocking copies, or less data, not a bigger GPU",
    ("launch", "cuda"): "larger batches or torch.compile, not a bigger GPU",
    ("communication", "cuda"): "accumulation or faster links, not more GPUs",
    ("other", "cpu"): "larger batches or torch.compile, not a faster processor",
    ("communication", "cpu"): "accumulation or fewer processes, not more of them",
}
WORTH = 0.10  # of a step: less is not worth a change
TELLING = 0.20  # of a step: the answer mentions it
COLUMNS = (
    Column("Machine", Quantity.MACHINE),
    Column("Case"),
    Column("Parts of a step", Quantity.PARTS),
    Column("Step", Quantity.TIME),
    Column("Bottleneck"),
    Column("Share of a step", Quantity.SHARE),
    Column("Peak memory", Quantity.BYTES),
    Column("Memory left", Quantity.BYTES),
    Column("Advice"),
)
LEAD = "Shares of a steady step; each bar is one step of its machine."


@dataclass(frozen=True, slots=True)
class HeldBack:
    """The parts of a script's step, and its memory.

    Attributes:
        shares: of a steady step.
        step_s: on the host's clock.
        largest: the largest avoidable part, if worth a change.
        peak_bytes, left_bytes: of the device, or of a CPU's host: the most and the least of the repeats.
    """

    repeats: Repeats
    shares: dict[str, float]
    step_s: Estimate | None
    largest: str
    share: Estimate | None
    peak_bytes: int | None
    left_bytes: int | None

    @property
    def where(self) -> str:
        """Return machine and size, up to the comma before numbers."""
        size = size_text(self.repeats.cell.case)
        return f"{self.repeats.cell.hardware} at {size}," if size else self.repeats.cell.hardware

    @property
    def advice(self) -> str:
        """Return empty if nothing is worth a change."""
        return ADVICE.get((self.largest, self.repeats.usable[0].device), "")

    @property
    def bottleneck(self) -> str:
        return f"on {self.where} {format_percent(self.share)} of a step {AVOIDABLE[self.largest]}"

    @property
    def sentence(self) -> str:
        if self.largest:
            return f"{self.bottleneck}: {self.advice}" if self.advice else self.bottleneck
        compute, other = (100 * self.shares.get(name, 0.0) for name in ("compute", "other"))
        if compute < max(other, 100 * WORTH):
            return f"on {self.where} {other:.0f} % of a step cannot be attributed to a part"
        return f"on {self.where} {compute:.0f} % of a step is compute, and no other part delays it"

    @property
    def memory(self) -> str:
        if self.peak_bytes is None or self.left_bytes is None:
            return ""
        return f"peak memory {bytes_text(self.peak_bytes)}, {bytes_text(self.left_bytes)} left"


@dataclass(frozen=True, slots=True)
class HeldBacks(Finding):
    """Scripts' cells with a known step or memory."""

    name = "held-back"
    title = "Bottlenecks"
    section = "script"
    order = 4
    cells: tuple[HeldBack, ...]

    @classmethod
    def find(cls, results: Results) -> "HeldBacks":
        scripts = [held_back(cell) for cell in results.cells if any(map(_is_watched, cell.usable))]
        return cls(tuple(cell for cell in scripts if cell.shares or cell.peak_bytes is not None))

    def table(self) -> Table | None:
        rows = tuple(
            (
                cell.repeats.cell.hardware,
                cell.repeats.cell.case.id,
                _parts(cell),
                cell.step_s,
                cell.largest or ("only compute" if "compute" in cell.shares else None),
                cell.share,
                cell.peak_bytes,
                cell.left_bytes,
                cell.advice or None,
            )
            for cell in self.cells
        )
        return Table(COLUMNS, rows, LEAD) if rows else None

    def headline(self) -> tuple[str, ...]:
        cells = [cell for cell in self.cells if _tells(cell)]
        worst = max(cells, key=lambda cell: cell.share.value if cell.share else 0.0, default=None)
        return (f"{capitalised(worst.bottleneck)}.",) if worst else ()

    def details(self) -> tuple[str, ...]:
        return tuple(f"{capitalised(cell.sentence)}." for cell in self.cells if _tells(cell))

    def observations(self) -> tuple[str, ...]:
        sentences = _steps(self.cells)
        for cell in self.cells:
            if not _tells(cell) and (cell.shares or cell.memory):
                step = cell.sentence if cell.shares else f"on {cell.where.removesuffix(',')}"
                sentences.append(f"{capitalised('; '.join(filter(None, (step, cell.memory))))}.")
        return tuple(sentences)


def _is_watched(record: Record) -> bool:
    return record.script is not None and record.script.program is None


def _steps(cells: Sequence[HeldBack]) -> list[str]:
    steps: dict[str, dict[str, list[str]]] = {}
    for cell in cells:
        for script in [record.script for record in cell.repeats.usable if record.script][:1]:
            text = ". Unknown: ".join([script_step(script), *script.doubts])
            case = script_text(cell.repeats.cell.case)
            steps.setdefault(case, {}).setdefault(text, []).append(cell.repeats.cell.hardware)
    return [
        f"A step of {case}{f' on {listed(names)}' if len(texts) > 1 else ''}: {text}."
        for case, texts in steps.items()
        for text, names in texts.items()
    ]


def held_back(cell: Repeats) -> HeldBack:
    usable = [record for record in cell.usable if record.script]
    known = [record.script.shares for record in usable if record.script and record.script.shares]
    shares = {
        name: statistics.fmean(each.get(name, 0.0) for each in known)
        for name in PARTS
        if any(name in each for each in known)
    }
    avoidable = [name for name in AVOIDABLE if usable[0].device == "cpu" or name not in ON_CPUS]
    largest = max((name for name in avoidable if name in shares), key=lambda name: shares[name], default="")
    largest = largest if shares.get(largest, 0.0) >= WORTH else ""
    values = [each.get(largest, 0.0) for each in known]
    left = [record.script.memory_left_bytes for record in usable if record.script]
    peaks = [
        record.memory.peak_rss_bytes
        if record.device == "cpu"
        else record.memory.device_reserved_bytes or record.memory.device_allocated_bytes
        for record in usable
        if record.memory
    ]
    return HeldBack(
        repeats=cell,
        shares=shares,
        step_s=over_repeats([record.wall.total_mean_s for record in usable if record.wall]),
        largest=largest,
        share=mean_share(values) if largest else None,
        peak_bytes=max(filter(None, peaks), default=None),
        left_bytes=min((size for size in left if size is not None), default=None),
    )


def mean_share(values: Sequence[float]) -> Estimate:
    """Return the mean with its t-interval within 0 and 1."""
    mean = mean_of(values)
    if mean.low is None or mean.high is None:
        return mean
    return Estimate(mean.value, max(mean.low, 0.0), min(mean.high, 1.0))


def _parts(cell: HeldBack) -> Parts | None:
    if not cell.shares or cell.step_s is None:
        return None
    return Parts(tuple((name, share * cell.step_s.value) for name, share in cell.shares.items()))


def _tells(cell: HeldBack) -> bool:
    low = cell.share.low if cell.share else None
    return low is not None and low >= WORTH and cell.shares[cell.largest] >= TELLING
