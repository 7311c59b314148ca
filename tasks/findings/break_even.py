"""Where a machine starts to pay: along each size by time and by money, and over many calls."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tasks.findings.size_series import WAYS, Line, lines
from tasks.results.finding_types import Crossing
from tasks.results.model import Pairing, Summary
from tasks.results.values import Outcome

Verdicts = Mapping[int, Outcome | None]
_AHEAD = {
    "time": "{} is faster than {}",
    "end to end": "{} is faster than {} end to end",
    "cost": "{} is cheaper than {}",
}
LISTED = 5  # break-evens that the answer tells; all of them are in the report
_DECIDED = (Outcome.FASTER, Outcome.SLOWER)


@dataclass(frozen=True, slots=True)
class Bracket:
    """Where the lead changes, as in `Crossing`; `inside` are the undecided values between the two."""

    below: int | None
    above: int | None
    inside: tuple[int, ...] = ()
    falls: bool = False


def crossings(pairings: Iterable[Pairing]) -> tuple[Crossing, ...]:
    """Find where along each row of cases the lead changes, for each comparison that has a verdict.

    Nothing is interpolated: in a coarse grid that puts the change, with confidence, where it isn't.
    """
    found = ((line, way, line.verdicts(way)) for line in lines(pairings) for way in WAYS)
    return tuple(crossing(line, way, verdicts) for line, way, verdicts in found if any(verdicts.values()))


def where_it_pays(found: Iterable[Crossing]) -> list[str]:
    """Where, as a size grows, the lead changes: the crossings by time that have both ends, the first few."""
    told = [f"{c.sentence}." for c in found if c.by == "time" and None not in (c.below, c.above)]
    more = len(told) - LISTED
    rest = f"The lead changes along {more} more rows of sizes, which the table of break-evens has."
    return [*told[:LISTED], *([rest] if more > 0 else [])]


def crossing(line: Line, way: str, verdicts: Verdicts) -> Crossing:
    """One bracket, and the sentence that says it."""
    found = bracket(verdicts)
    return Crossing(
        hardware=line.hardware,
        baseline=line.baseline,
        workload=line.workload,
        precision=line.precision,
        parameter=line.parameter,
        fixed=line.fixed,
        by=way,
        below=found.below,
        above=found.above,
        sentence=_sentence(line, way, verdicts, found),
        undecided=tuple(value for value, verdict in verdicts.items() if verdict is Outcome.UNDECIDED),
        falls=found.falls,
    )


def bracket(verdicts: Verdicts) -> Bracket:
    """The last change of the lead as the values rise.

    The machine gains on the baseline, unless the baseline is ahead at the largest decided value and the
    machine at a smaller one: then it `falls`.
    """
    decided = {value: verdicts[value] for value in sorted(verdicts) if verdicts[value] in _DECIDED}
    last = next(reversed(decided.values()), None)
    falls = last is Outcome.SLOWER and Outcome.FASTER in decided.values()
    wins = Outcome.SLOWER if falls else Outcome.FASTER
    below = max((value for value, verdict in decided.items() if verdict is not wins), default=None)
    above = None
    for value in sorted((v for v, verdict in verdicts.items() if verdict is not None), reverse=True):
        if verdicts[value] is not wins:
            break
        above = value
    if below is None or above is None:
        return Bracket(below, above, falls=falls)
    inside = (v for v in sorted(verdicts) if below < v < above and verdicts[v] is Outcome.UNDECIDED)
    return Bracket(below, above, tuple(inside), falls)


def with_payback(pairings: Sequence[Pairing], summaries: Sequence[Summary]) -> tuple[Pairing, ...]:
    """The pairings, each with the calls after which a longer cold start is made up for."""
    known = {(summary.cell.hardware, summary.cell.case): summary for summary in summaries}
    return tuple(
        replace(
            p, payback_calls=_payback(p, known.get((p.hardware, p.case)), known.get((p.baseline, p.case)))
        )
        for p in pairings
    )


def payback_calls(cold_s: float, baseline_cold_s: float, step_s: float, baseline_step_s: float) -> float:
    """Calls until a longer cold start is made up for by shorter steps; 0 where it is no longer.

    (cold - baseline cold) / (baseline time - time), with the data in place on both sides.
    """
    return max(cold_s - baseline_cold_s, 0.0) / (baseline_step_s - step_s)


def _payback(pairing: Pairing, side: Summary | None, base: Summary | None) -> float | None:
    if side is None or base is None or pairing.compute is None or side.units != base.units:
        return None
    if pairing.compute.outcome is not Outcome.FASTER or side.compute_s is None or base.compute_s is None:
        return None
    if side.cold_s is None or base.cold_s is None or side.whole:
        return None  # a whole job is one call, and nobody calls it again in the same process
    return payback_calls(side.cold_s, base.cold_s, side.compute_s.value, base.compute_s.value)


def _sentence(line: Line, way: str, verdicts: Verdicts, found: Bracket) -> str:
    """The finding in words. Every measured value is covered: what does not fit the rule is named."""
    at = {verdict: [v for v, told in verdicts.items() if told is verdict] for verdict in Outcome}
    who = {
        Outcome.FASTER: _AHEAD[way].format(line.hardware, line.baseline),
        Outcome.SLOWER: _AHEAD[way].format(line.baseline, line.hardware),
        Outcome.UNDECIDED: "undecided",
    }
    name, wins = line.parameter, Outcome.SLOWER if found.falls else Outcome.FASTER
    told = [(verdict, values) for verdict, values in at.items() if values]
    if found.above is not None and found.below is not None:
        parts = [f"{who[wins]} from {name} between {found.below} and {found.above}"]
        parts += [f"and at {_list(odd)}"] if (odd := [v for v in at[wins] if v < found.above]) else []
        parts += [f"undecided at {_list(at[Outcome.UNDECIDED])}"] if at[Outcome.UNDECIDED] else []
    elif len(told) == 1 and len(told[0][1]) > 1:
        verdict, values = told[0]
        parts = [f"{who[verdict]} at every measured {name}, {values[0]} to {values[-1]}"]
    else:
        parts = [f"{who[verdict]} at {name}={_list(values)}" for verdict, values in told]
    return f"{line.words}: {'; '.join(parts)}"


def _list(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))
