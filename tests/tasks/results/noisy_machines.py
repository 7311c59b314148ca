"""Two machines of known speed under noise: how often intervals hold the truth, and how often they decide.

`python -m tests.tasks.results.noisy_machines [--runs N] [--write]` prints the tables of docs/measuring.md
(`--write` puts them there). A repeat is drawn from the records that the engine's stop rule makes of streams
of steps, and moved by its process's effect.
"""

import argparse
import math
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tasks.findings.totals import CommonCases, time_ratio
from tasks.results.repeats import group
from tasks.results.speedup import decide, per_unit, speedup
from tasks.results.values import Estimate, RatioVerdict
from tests.docs import tables
from tests.tasks.examples.records import record
from tests.tasks.results.noisy_streams import Measured, SharedCore, falling, library, vm
from tests.workloads.harness.engine.streams import quiet
from workloads.harness.records.case import Case
from workloads.harness.records.record import Record, Timing, Verdict

TRUTH, CLOSE = 2.2, 1.1
REPEATS = (2, 3, 5)
CASES = tuple(Case.of("matmul", {"n": n}) for n in (64, 128, 256, 512, 1024, 2048, 4096))
STEPS_S = (0.01, 0.03, 0.04, 0.06, 0.1)  # of a VM's two threads; quick runs are not precise from 40 ms on
Policy = Callable[[Sequence[Record]], list[Record]]


@dataclass(frozen=True, slots=True)
class Box:
    """A machine, and the disturbances of its repeats.

    Attributes:
        run_sd: spread of processes, in logs.
        slow_share: processes that are 5 to 80 % slow.
        busy_share: repeats under load, which takes half of `busy_log` to all of it.
    """

    drawn: Sequence[Measured]
    run_sd: float = 0.015
    slow_share: float = 0.0
    busy_share: float = 0.0
    busy_log: float = 0.0

    def repeat(self, chance: random.Random, case: Case, name: str, step_s: float, number: int) -> Record:
        one = chance.choice(self.drawn)
        log = one.error + chance.gauss(0, self.run_sd)
        log += math.log(chance.uniform(1.05, 1.8)) if chance.random() < self.slow_share else 0.0
        busy = chance.random() < self.busy_share
        log += self.busy_log * chance.uniform(0.5, 1) if busy else 0.0
        seconds, verdict = step_s * math.exp(log), Verdict.NOISY if busy else one.verdict
        probes = {"canary_drift": one.canary_drift} | ({"foreign_load_share": 0.5} if busy else {})
        return record(
            seconds, case, name, number, verdict=verdict, wall=_moved(one.wall, seconds), probes=probes
        )


def _moved(wall: Timing, seconds: float) -> Timing:
    factor = seconds / wall.total_mean_s
    samples = tuple(factor * sample for sample in wall.samples_s)
    return replace(wall, samples_s=samples, median_s=factor * wall.median_s, mean_s=seconds)


def refuse_wide(records: Sequence[Record]) -> list[Record]:
    return [one for one in records if one.ok]


def take_wide(records: Sequence[Record]) -> list[Record]:
    return list(records)


@dataclass(slots=True)
class Tally:
    """Counts over simulated runs; coverage is of existing intervals.

    Attributes:
        wrong: verdicts in the wrong direction; `misled`: those not marked as provisional.
        provisional: headlines marked so.
        headline_misled: unmarked headlines decided in the wrong direction.
    """

    cells: int = 0
    intervals: int = 0
    covered: int = 0
    decided: int = 0
    wrong: int = 0
    misled: int = 0
    runs: int = 0
    given: int = 0
    headline_covered: int = 0
    headline_decided: int = 0
    headline_wrong: int = 0
    headline_misled: int = 0
    provisional: int = 0
    quiet_covered: int = 0


def _shares(tallies: Sequence[Tally], part: Callable[[Tally], int], whole: Callable[[Tally], int]) -> str:
    """Return a share for each number of repeats; a dash for a share of nothing."""
    return "/".join(f"{part(each) / whole(each):.2f}" if whole(each) else "–" for each in tallies)


def simulate(
    boxes: tuple[Box, Box], repeats: int, policy: Policy, runs: int, truth: float = TRUTH, whole: bool = False
) -> Tally:
    """Compare two machines of which the second is `truth` times as fast in every case.

    `whole`: a headline needs an interval of every case, the earlier rule.
    """
    tally, chance = Tally(), random.Random(f"{repeats}/{truth}/{policy.__name__}")
    for _ in range(runs):
        _count(tally, policy(_run(chance, boxes, repeats, truth)), truth, whole)
    return tally


def _run(chance: random.Random, boxes: tuple[Box, Box], repeats: int, truth: float) -> list[Record]:
    return [
        box.repeat(chance, case, name, step_s, number)
        for name, box, step_s in (("a", boxes[0], truth), ("b", boxes[1], 1.0))
        for case in CASES
        for number in range(repeats)
    ]


def _count(tally: Tally, records: Sequence[Record], truth: float, whole: bool) -> None:
    cells = group(records, (), {})
    by_cell = {(cell.cell.hardware, cell.cell.case): cell for cell in cells}
    tally.runs, tally.cells = tally.runs + 1, tally.cells + len(CASES)
    for case in CASES:
        base, side = by_cell.get(("a", case)), by_cell.get(("b", case))
        ratio = speedup(*per_unit(base, side)) if base and side else None
        if base and side and ratio and ratio.estimate.low is not None:
            tally.intervals += 1
            tally.covered += _holds(ratio.estimate, truth)
            tally.decided += ratio.outcome is not RatioVerdict.UNDECIDED
            wrong = ratio.outcome is _wrong(truth) or (truth == 1 and not _holds(ratio.estimate, 1))
            tally.wrong += wrong
            tally.misled += wrong and not (base.provisional or side.provisional)
    suite = CommonCases.of(cells)
    if len(suite.logs) < 2 or not suite.cases or (whole and suite.left_out):
        return
    total = time_ratio(suite, "a", "b")
    if total.low is not None:
        tally.given += 1
        outcome, quiet = decide(total, repeats=3).outcome, not suite.provisional
        tally.headline_covered += _holds(total, truth)
        tally.quiet_covered += quiet and _holds(total, truth)
        tally.headline_decided += outcome is not RatioVerdict.UNDECIDED
        tally.headline_wrong += outcome is _wrong(truth)
        tally.headline_misled += quiet and outcome is _wrong(truth)
        tally.provisional += not quiet


def _wrong(truth: float) -> RatioVerdict:
    return RatioVerdict.SLOWER if truth > 1 else RatioVerdict.FASTER


def _holds(estimate: Estimate, truth: float) -> bool:
    return (estimate.low or 0.0) <= truth <= (estimate.high or math.inf)


def common_worlds(count: int) -> dict[str, tuple[Box, Box]]:
    """Return pairs of machines with independent noise by step."""
    calm, noisy = library(lambda c, at_s: quiet(c, at_s, 0), (0.03,), count), library(vm, STEPS_S, count)
    one = Box(calm)
    return {
        "calm": (one, one),
        "VM": (one, Box(noisy)),
        "VM, 8 % of processes slow": (replace(one, slow_share=0.08), Box(noisy, slow_share=0.08)),
    }


def worlds(count: int) -> dict[str, tuple[Box, Box]]:
    """Return the common pairs, and pairs with intermittent disturbances."""
    common = common_worlds(count)
    one, calm = common["calm"][0], common["calm"][0].drawn

    def shared(slower: float, steps_s: Sequence[float]) -> Box:
        return Box(library(SharedCore(slower, 3), steps_s, 2 * count))

    return common | {
        "a core that a neighbour makes 1.4 times slower, 3 s at a time": (one, shared(1.4, (0.01, 0.03))),
        "the same, and the other machine, too": (shared(1.4, (0.03, 0.04)), shared(1.4, (0.01, 0.03))),
        "the same, twice as slow": (shared(2, (0.03, 0.04)), shared(2, (0.01, 0.03))),
        "a clock that falls by 10 %, time constant 3 s": (one, Box(library(falling(3), (0.03, 0.1), count))),
        "the same, 10 s": (one, Box(library(falling(10), (0.03, 0.1), count))),
        "next to a load in 20 % of its repeats, 16 to 35 % slower": (
            one,
            Box(calm, busy_share=0.2, busy_log=0.3),
        ),
        "the same in 50 % of them": (one, Box(calm, busy_share=0.5, busy_log=0.3)),
        "next to a load all the time, 35 to 82 % slower": (one, Box(calm, busy_share=1.0, busy_log=0.6)),
    }


def held_table(found: dict[str, tuple[Box, Box]], runs: int) -> Iterator[str]:
    """Yield the table of a machine that is `TRUTH` times as fast, with wide records."""
    yield (
        "| one machine is | its records | cells decided (held) | headlines (held) "
        "| provisional (held of the others) |"
    )
    yield "| --- " * 5 + "|"
    for name, boxes in found.items():
        taken = [simulate(boxes, repeats, take_wide, runs) for repeats in REPEATS]
        held = _shares(taken, lambda t: t.headline_covered, lambda t: t.given)
        others = _shares(taken, lambda t: t.quiet_covered, lambda t: t.given - t.provisional)
        decided = _shares(taken, lambda t: t.headline_decided, lambda t: t.runs)
        provisional = _shares(taken, lambda t: t.provisional, lambda t: t.given)
        cells = [_decided(taken), f"{decided} ({held})", f"{provisional} ({others})"]
        yield f"| {' | '.join([name, _verdicts(boxes[1]), *cells])} |"


def wrong_table(found: dict[str, tuple[Box, Box]], runs: int) -> Iterator[str]:
    """Yield the table of wrong verdicts: a machine `CLOSE` times as fast, the other under load."""
    yield "| one machine is | cells decided | wrongly | headlines decided | wrongly | provisional |"
    yield "| --- " * 6 + "|"
    for name, boxes in found.items():
        if boxes[1].busy_share:
            made = [simulate(boxes, repeats, take_wide, runs, CLOSE) for repeats in REPEATS]
            cells = [
                _shares(made, lambda t, part=part: getattr(t, part), lambda t: t.cells)
                for part in ("decided", "wrong")
            ] + [
                _shares(made, lambda t, part=part: getattr(t, part), lambda t: t.runs)
                for part in ("headline_decided", "headline_wrong", "provisional")
            ]
            yield f"| {' | '.join([name, *cells])} |"


def _decided(tallies: Sequence[Tally]) -> str:
    decided = _shares(tallies, lambda t: t.decided, lambda t: t.cells)
    return f"{decided} ({_shares(tallies, lambda t: t.covered, lambda t: t.intervals)})"


def _verdicts(box: Box) -> str:
    """Return the share of each verdict among the records that repeats are drawn from."""
    shares = {v: statistics.fmean(one.verdict is v for one in box.drawn) for v in Verdict}
    return ", ".join(f"{100 * share:.0f} % {verdict}" for verdict, share in shares.items() if share)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    found = worlds(given.streams)
    heading = f"{given.runs} runs a row, with 2/3/5 repeats:"
    for name, lines in (
        ("noisy", held_table(found, given.runs)),
        ("loaded", wrong_table(found, given.runs)),
    ):
        tables.show(heading, lines, "measuring.md", name, given.write)


if __name__ == "__main__":
    main()
