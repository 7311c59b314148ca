"""From records to everything that is said of them."""

from collections.abc import Mapping, Sequence

from tasks.analysis.answer import answer
from tasks.analysis.confounds import confounds
from tasks.analysis.cost import cost_efficiency
from tasks.analysis.model import Comparison, Machine, Pairing
from tasks.analysis.plausibility import gate
from tasks.analysis.repeats import Repeats, group, latest
from tasks.analysis.scaling import band, device_ratio, efficiency, scaling, serial_fraction
from tasks.analysis.speedup import per_unit, refusal, speedup
from tasks.analysis.summaries import summarise
from tasks.analysis.totals import Suite, totals
from workloads.harness.case import Case
from workloads.harness.record import Record


def compare(records: Sequence[Record], machines: Sequence[Machine], baseline: str) -> Comparison:
    """Judge the records, summarise their cells, pair them with the baseline's, and say what came out.

    Raises:
        ValueError: no machine has the baseline's name.
    """
    known = {machine.name: machine for machine in machines}
    if baseline not in known:
        raise ValueError(
            f"the baseline {baseline!r} is none of the machines: {', '.join(known) or 'there are none'}"
        )
    records = latest(records)
    cells = group(records, machines, gate(records, machines))
    summaries = summarise(cells, machines)
    base = {cell.cell.case: cell for cell in cells if cell.cell.hardware == baseline}
    others = [cell for cell in cells if cell.cell.hardware != baseline]
    pairings = tuple(pair(cell, base.get(cell.cell.case), known, baseline) for cell in others)
    suite = Suite.of(cells)
    return Comparison(
        baseline=baseline,
        machines=tuple(machines),
        summaries=summaries,
        pairings=pairings,
        totals=totals(suite, machines, baseline),
        answer=answer(suite, machines, baseline, summaries, pairings),
        unpaired=tuple(unpaired(cell, baseline) for cell in others if cell.cell.case not in base),
    )


def pair(side: Repeats, base: Repeats | None, machines: Mapping[str, Machine], baseline: str) -> Pairing:
    """One cell against the baseline's cell of the same case, or why there is no ratio."""
    case, hardware = side.cell.case, side.cell.hardware
    refused = refusal(base, side)
    if base is None or refused:
        return Pairing(case, hardware, baseline, refused=refused)
    compute = speedup(*per_unit(base, side))
    fewest = min(len(base.usable), len(side.usable))
    one, other = side.usable[0], base.usable[0]
    ratio = device_ratio(one, machines.get(hardware), other, machines[baseline])
    share = efficiency(compute.estimate, ratio) if compute and ratio else None
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
        scaling=scaling(side.units, base.units) if share else "",
        serial_fraction=serial_fraction(compute.estimate.value, ratio) if compute and ratio else None,
    )


def unpaired(cell: Repeats, baseline: str) -> str:
    """What to measure so that a cell gets its ratio."""
    return f"{cell.cell.id} has no counterpart: measure {_words(cell.cell.case)} on {baseline} too"


def _price(machines: Mapping[str, Machine], hardware: str) -> float | None:
    return machines[hardware].usd_per_hour if hardware in machines else None


def _words(case: Case) -> str:
    size = " ".join(f"{name}={value}" for name, value in case.size)
    return f"{case.workload} {size} {case.precision}".replace("  ", " ")
