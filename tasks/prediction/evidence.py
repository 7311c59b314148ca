"""Valid records of each card, and its measured rates."""

import statistics
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from tasks.errors import GridbenchError
from tasks.findings.compare import judged_cells
from tasks.planning.hardware import Hardware, load_gpus, names_of
from tasks.planning.plan import PlannedCase
from tasks.plausibility.gpu_names import models_called, names_in
from tasks.prediction.card_ratio import Rates
from tasks.results.repeats import Repeats
from tasks.results.slices import slice_in
from tasks.store.store import Store, runs
from workloads.harness.records.record import Record
from workloads.harness.roofline.ceilings import ceilings_by_machine

MOST_RUNS = 300  # newest runs to search


@dataclass(frozen=True, slots=True)
class Evidence:
    """Earlier runs' valid cells, with machines as planned."""

    cells: tuple[tuple[Hardware, Repeats], ...] = ()

    def of_card(self, machine: Hardware) -> list[Repeats]:
        """Return cells of the machine's card; if unknown, of the machine."""
        return [cell for other, cell in self.cells if _has_same_card(machine, other)]

    def of_machine(self, machine: Hardware) -> list[Record]:
        return [record for other, cell in self.cells if other.name == machine.name for record in cell.usable]

    def measured_rates(self, machine: Hardware, precision: str) -> Rates | None:
        """Return the card's roof, the median over boxes."""
        records = [record for cell in self.of_card(machine) for record in cell.usable]
        ceilings = ceilings_by_machine(records).values()
        compute = [rate.value for ceiling in ceilings if (rate := dict(ceiling.compute).get(precision))]
        memory = [ceiling.memory.value for ceiling in ceilings if ceiling.memory]
        return Rates(statistics.median(compute), statistics.median(memory)) if compute and memory else None


def sheet_rates(machine: Hardware, precision: str) -> Rates | None:
    """Return the card's data sheet."""
    peaks = load_gpus().get(machine.gpu or "")
    if peaks is None or precision not in peaks.tflops:
        return None
    return Rates(peaks.tflops[precision] * 1e12, peaks.gb_per_s * 1e9)


def evidence_of(
    results: Path, machines: Collection[Hardware], cases: Sequence[PlannedCase] = (), most: int = MOST_RUNS
) -> Evidence:
    """Return evidence about these machines, and all that measured these cases.

    It is from the latest `most` runs that have some.
    """
    return Evidence(tuple(chain.from_iterable(islice(_runs(results, machines, cases), most))))


def evidence_in(machines: Sequence[Hardware], records: Sequence[Record]) -> Evidence:
    """Return evidence; a slice of a card is another card, of unknown rates."""
    by_name = {machine.name: _with_card(machine, records) for machine in machines}
    cells, _ = judged_cells(records, [machine.machine() for machine in machines])
    return Evidence(
        tuple(
            (by_name[cell.cell.hardware], cell)
            for cell in cells
            if cell.cell.hardware in by_name
            and cell.usable
            and not cell.has_metrics
            and not any(slice_in(record.environment) for record in cell.usable)
        )
    )


def _with_card(machine: Hardware, records: Sequence[Record]) -> Hardware:
    """Take the GPU model from records, if its file lacks it."""
    if machine.device == "cpu" or machine.gpu:
        return machine
    names = {name for r in records if r.hardware == machine.name for name in names_in(r.environment)}
    models = {model for name in names for model in models_called(name, names_of(load_gpus()))}
    return machine.model_copy(update={"gpu": models.pop()}) if len(models) == 1 else machine


def _runs(
    results: Path, machines: Collection[Hardware], cases: Sequence[PlannedCase]
) -> Iterator[tuple[tuple[Hardware, Repeats], ...]]:
    for name in islice(runs(results), MOST_RUNS):
        with suppress(GridbenchError):
            store = Store(results / name)
            plan = store.plan
            same = any(_is_same(planned, other) for planned in cases for other in plan.cases)
            hardware = [m for m in plan.hardware if same or any(_has_same_card(each, m) for each in machines)]
            if hardware and (cells := evidence_in(hardware, store.records()[0]).cells):
                yield cells


def _is_same(planned: PlannedCase, other: PlannedCase) -> bool:
    """Return whether two plans mean one case: for scripts, also one command."""
    commands = [case.script.command if case.script else () for case in (planned, other)]
    return planned.case == other.case and commands[0] == commands[1]


def _has_same_card(one: Hardware, other: Hardware) -> bool:
    return one.name == other.name or (one.gpu is not None and one.gpu == other.gpu)
