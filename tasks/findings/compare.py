"""From records to everything that is said of them."""

import pkgutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module

import tasks.findings
from tasks.findings.answer import MOST_LINES, caveats, details, headline
from tasks.findings.bottleneck import with_bounds
from tasks.findings.break_even import with_payback
from tasks.findings.scaling_families import families, sentences
from tasks.findings.totals import CommonCases, totals
from tasks.plausibility.physics import gate
from tasks.results.comparison import Comparison
from tasks.results.confounds import confounds
from tasks.results.cost import cost_efficiency
from tasks.results.finding import Finding, LaneJob, Results
from tasks.results.model import Machine, Pairing
from tasks.results.repeats import RecordKey, Repeats, group, latest
from tasks.results.scaling import band, device_ratio, efficiency, scaling, serial
from tasks.results.speedup import per_unit, refusal, speedup
from tasks.results.summaries import summarise
from workloads.harness.records.case import Case
from workloads.harness.records.record import Grade, Record


def compare(
    records: Sequence[Record],
    machines: Sequence[Machine],
    baseline: str,
    suite_cases: Collection[Case] = (),
    jobs: Sequence[LaneJob] = (),
    population: Sequence[Record] | None = None,
) -> Comparison:
    """Judge the records, summarise their cells, pair them with the baseline's, and say what came out.

    Totals are over `suite_cases`, where they are given: a case that was measured only to find a break-even
    must not tip them. `jobs` are the lanes' jobs, for the bills, `population` the records of other machines
    that these are to be held against, where the run asks which to keep.

    Raises:
        ValueError: no machine has the baseline's name.
    """
    records = latest(records)
    cells, refusals = judged_cells(records, machines)
    summaries = with_bounds(summarise(cells, machines), cells)
    pairings = with_payback(pairs(cells, machines, baseline), summaries)
    cases = set(suite_cases) or {cell.cell.case for cell in cells}
    results = Results(records, machines, baseline, cells, summaries, pairings, cases, jobs, population)
    findings, scaled = find_all(results), families(cells)
    suite = CommonCases.of(results.suite_cells)
    paired = [pairing for pairing in pairings if pairing.case in cases]
    leading = [line for finding in findings for line in finding.headline()]
    general = () if leading and len(suite.cases) < 2 else headline(suite, machines, baseline, paired)
    return Comparison(
        baseline=baseline,
        machines=tuple(machines),
        summaries=summaries,
        pairings=pairings,
        totals=totals(suite, machines, baseline),
        answer=(*leading, *general)[:MOST_LINES],
        details=(
            *(sentence for finding in findings for sentence in finding.details()),
            *details(suite, machines, paired),
            *sentences(scaled),
            *(*leading, *general)[MOST_LINES:],
        ),
        caveats=caveats(suite, machines, summaries, paired),
        unpaired=unpaired(cells, baseline),
        families=scaled,
        observations=tuple(sentence for finding in findings for sentence in finding.observations()),
        findings=findings,
        refusals=refusals,
    )


def judged_cells(
    records: Sequence[Record], machines: Sequence[Machine]
) -> tuple[tuple[Repeats, ...], dict[RecordKey, tuple[str, ...]]]:
    """The records by cell, and the reasons against each that can't be true."""
    refusals = gate(records, machines)
    return group(records, machines, refusals), refusals


def pairs(cells: Sequence[Repeats], machines: Sequence[Machine], baseline: str) -> list[Pairing]:
    """Every cell of another machine against the baseline's cell of the same case.

    Raises:
        ValueError: no machine has the baseline's name.
    """
    available = {machine.name: machine for machine in machines}
    if baseline not in available:
        raise ValueError(
            f"the baseline {baseline!r} is not one of the machines: {', '.join(available) or 'there are no machines'}"
        )
    base, others = _sides(cells, baseline)
    return [pair(cell, base.get(cell.cell.case), available, baseline) for cell in others]


def pair(side: Repeats, base: Repeats | None, machines: Mapping[str, Machine], baseline: str) -> Pairing:
    """One cell against the baseline's cell of the same case, or why there is no ratio."""
    case, hardware = side.cell.case, side.cell.hardware
    refused = refusal(base, side)
    if base is None or refused:
        return Pairing(case, hardware, baseline, refused=refused, grade=Grade.REFUSED)
    compute = speedup(*per_unit(base, side))
    fewest = min(len(base.usable), len(side.usable))
    item, other = side.usable[0], base.usable[0]
    ratio = device_ratio(item, machines.get(hardware), other, machines[baseline])
    share = efficiency(compute.estimate, ratio) if compute and ratio else None
    kind = scaling(side.units, base.units) if share else ""
    return Pairing(
        case=case,
        hardware=hardware,
        baseline=baseline,
        compute=compute,
        end_to_end=speedup(*per_unit(base, side, end_to_end=True)),
        efficiency=share,
        efficiency_band=band(share) if share else "",
        cost=cost_efficiency(compute, _price(machines, baseline), _price(machines, hardware), fewest),
        confounds=confounds(side.usable, base.usable),
        scaling=kind,
        serial_fraction=serial(kind, compute.estimate.value, ratio) if compute and ratio else None,
        grade=max(side.grade, base.grade, key=list(Grade).index),
        provisional=side.provisional or base.provisional,
    )


def unpaired(cells: Sequence[Repeats], baseline: str) -> tuple[str, ...]:
    """Say what to measure so that each cell gets its ratio."""
    base, others = _sides(cells, baseline)
    return tuple(
        f"{cell.cell.id} has no counterpart: measure {_words(cell.cell.case)} on {baseline} too"
        for cell in others
        if cell.cell.case not in base
    )


def _sides(cells: Sequence[Repeats], baseline: str) -> tuple[dict[Case, Repeats], list[Repeats]]:
    """The baseline's cells by their case, and those of the other machines."""
    base = {cell.cell.case: cell for cell in cells if cell.cell.hardware == baseline}
    return base, [cell for cell in cells if cell.cell.hardware != baseline]


def _price(machines: Mapping[str, Machine], hardware: str) -> float | None:
    return machines[hardware].usd_per_hour if hardware in machines else None


def _words(case: Case) -> str:
    size = " ".join(f"{name}={value}" for name, value in case.size)
    return f"{case.workload} {size} {case.terms}".replace("  ", " ")


@cache
def kinds() -> tuple[type[Finding], ...]:
    """Return every kind of finding, in the order of a report."""
    return tuple(sorted(_members(), key=lambda kind: (kind.order, kind.name)))


def find_all(results: Results) -> tuple[Finding, ...]:
    """Return one finding of every kind."""
    return tuple(kind.find(results) for kind in kinds())


def _members() -> Iterator[type[Finding]]:
    for file in pkgutil.walk_packages(tasks.findings.__path__, "tasks.findings."):
        for value in vars(import_module(file.name)).values():
            if isinstance(value, type) and issubclass(value, Finding) and value.__module__ == file.name:
                yield value
