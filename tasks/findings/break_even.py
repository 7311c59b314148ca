"""Sizes from which a machine beats the baseline, and calls that repay its start."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tasks.findings.size_series import WAYS, Line, lines
from tasks.results.finding import Finding, Results
from tasks.results.model import Pairing, Summary
from tasks.results.table import Column, Mark, Quantity, Table
from tasks.results.values import RatioVerdict

Verdicts = Mapping[int, RatioVerdict | None]
_AHEAD = {
    "time": "{} is faster than {}",
    "end to end": "{} is faster than {} end to end",
    "cost": "{} is cheaper than {}",
}
_AHEAD_IN_NUMBER = _AHEAD | {"time": "{} is better than {}"}
LISTED = 5  # break-evens in the answer; the report has all
MOST_SHOWN = 40  # break-evens shown in a table
COLUMNS = (
    Column("Machine", Quantity.MACHINE),
    Column("By"),
    Column("Parameter"),
    Column("Lead changes above", Quantity.COUNT),
    Column("And up to", Quantity.COUNT),
    Column("In words", Quantity.VERDICT),
)
_DECIDED = (RatioVerdict.FASTER, RatioVerdict.SLOWER)


@dataclass(frozen=True, slots=True)
class Bracket:
    """The sizes around a change of the lead; `inside` are undecided."""

    below: int | None
    above: int | None
    inside: tuple[int, ...] = ()
    falls: bool = False


@dataclass(frozen=True, slots=True)
class BreakEven:
    """The value of a size parameter from which a machine beats the baseline.

    Attributes:
        by: `time` (or a command's number), `end to end` or `cost`.
        below: the baseline is ahead up to here.
        above: the machine is ahead from here on.
        falls: the reverse: the machine is ahead up to `below`.
    """

    hardware: str
    baseline: str
    workload: str
    precision: str
    parameter: str
    fixed: tuple[tuple[str, int], ...]
    by: str
    below: int | None
    above: int | None
    sentence: str
    undecided: tuple[int, ...] = ()
    falls: bool = False


@dataclass(frozen=True, slots=True)
class BreakEvens(Finding):
    """The sizes from which a machine beats the baseline."""

    name = "break-evens"
    title = "Break-even by size"
    section = "time"
    order = 20
    break_evens: tuple[BreakEven, ...]

    @classmethod
    def find(cls, results: Results) -> "BreakEvens":
        return cls(break_evens([*results.pairings, *results.number_pairings]))

    def table(self) -> Table | None:
        ordered = sorted(self.break_evens, key=lambda found: WAYS.index(found.by))
        rows = tuple((f.hardware, f.by, f.parameter, f.below, f.above, Mark(f.sentence)) for f in ordered)
        return Table(COLUMNS, rows, brief=MOST_SHOWN) if rows else None

    def details(self) -> tuple[str, ...]:
        found = [c for c in self.break_evens if c.by == "time" and None not in (c.below, c.above)]
        more = len(found) - LISTED
        rest = f"The table of break-evens has {more} more series of sizes in which the lead changes."
        return (*(f"{c.sentence}." for c in found[:LISTED]), *([rest] if more > 0 else []))

    def published(self) -> dict[str, Any]:
        return {"crossings": [asdict(each) | {"fixed": dict(each.fixed)} for each in self.break_evens]}


def break_evens(pairings: Iterable[Pairing]) -> tuple[BreakEven, ...]:
    """Return one for each series of sizes that has a verdict.

    Nothing is interpolated: a coarse grid would give a precise but wrong value.
    """
    series = ((line, way, line.verdicts(way)) for line in lines(pairings) for way in WAYS)
    return tuple(break_even(line, way, verdicts) for line, way, verdicts in series if any(verdicts.values()))


def break_even(line: Line, way: str, verdicts: Verdicts) -> BreakEven:
    found = bracket(verdicts)
    return BreakEven(
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
        undecided=tuple(value for value, verdict in verdicts.items() if verdict is RatioVerdict.UNDECIDED),
        falls=found.falls,
    )


def bracket(verdicts: Verdicts) -> Bracket:
    """Return the last change of the lead.

    It `falls` if the baseline is ahead at the largest decided value and the machine at a smaller one.
    """
    decided = {value: verdicts[value] for value in sorted(verdicts) if verdicts[value] in _DECIDED}
    last = next(reversed(decided.values()), None)
    falls = last is RatioVerdict.SLOWER and RatioVerdict.FASTER in decided.values()
    wins = RatioVerdict.SLOWER if falls else RatioVerdict.FASTER
    below = max((value for value, verdict in decided.items() if verdict is not wins), default=None)
    above = None
    for value in sorted((v for v, verdict in verdicts.items() if verdict is not None), reverse=True):
        if verdicts[value] is not wins:
            break
        above = value
    if below is None or above is None:
        return Bracket(below, above, falls=falls)
    inside = (v for v in sorted(verdicts) if below < v < above and verdicts[v] is RatioVerdict.UNDECIDED)
    return Bracket(below, above, tuple(inside), falls)


def with_payback(pairings: Sequence[Pairing], summaries: Sequence[Summary]) -> tuple[Pairing, ...]:
    cells = {(summary.cell.hardware, summary.cell.case): summary for summary in summaries}
    sides = [(p, cells.get((p.hardware, p.case)), cells.get((p.baseline, p.case))) for p in pairings]
    return tuple(replace(p, payback_calls=_payback(p, side, base)) for p, side, base in sides)


def payback_calls(cold_s: float, baseline_cold_s: float, step_s: float, baseline_step_s: float) -> float:
    """Return 0 if the start is not longer."""
    return max(cold_s - baseline_cold_s, 0.0) / (baseline_step_s - step_s)


def _payback(pairing: Pairing, side: Summary | None, base: Summary | None) -> float | None:
    if side is None or base is None or pairing.compute is None or side.units != base.units:
        return None
    if pairing.compute.outcome is not RatioVerdict.FASTER or side.compute_s is None or base.compute_s is None:
        return None
    if side.cold_s is None or base.cold_s is None or side.whole:
        return None  # a whole job is one call of its process
    return payback_calls(side.cold_s, base.cold_s, side.compute_s.value, base.compute_s.value)


def _sentence(line: Line, way: str, verdicts: Verdicts, found: Bracket) -> str:
    at = {outcome: [v for v, each in verdicts.items() if each is outcome] for outcome in RatioVerdict}
    ahead = (_AHEAD_IN_NUMBER if line.is_of_number else _AHEAD)[way]
    who = {
        RatioVerdict.FASTER: ahead.format(line.hardware, line.baseline),
        RatioVerdict.SLOWER: ahead.format(line.baseline, line.hardware),
        RatioVerdict.UNDECIDED: "undecided",
    }
    name, wins = line.parameter, RatioVerdict.SLOWER if found.falls else RatioVerdict.FASTER
    outcomes = [(outcome, values) for outcome, values in at.items() if values]
    if found.above is not None and found.below is not None:
        exceptions, undecided = [v for v in at[wins] if v < found.above], at[RatioVerdict.UNDECIDED]
        parts = [f"{who[wins]} from {name} between {found.below} and {found.above}"]
        parts += [f"and at {_list(exceptions)}"] if exceptions else []
        parts += [f"undecided at {_list(undecided)}"] if undecided else []
    elif len(outcomes) == 1 and len(outcomes[0][1]) > 1:
        outcome, values = outcomes[0]
        parts = [f"{who[outcome]} at every measured {name}, {values[0]} to {values[-1]}"]
    else:
        parts = [f"{who[outcome]} at {name}={_list(values)}" for outcome, values in outcomes]
    return f"{line.words}: {'; '.join(parts)}"


def _list(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))
