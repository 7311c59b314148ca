"""Two machines of known speed under noise: how often intervals hold the truth, and how often they decide.

`python -m tests.tasks.results.noisy_machines` prints the tables of docs/measuring.md; with `100 200 1.1`, of a
machine that is 1.1 times as fast as the other. A repeat is drawn from what the engine's own stop rule makes of a
stream of steps, and moved by what its process adds.
"""

import math
import random
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tasks.findings.totals import CommonCases, time_ratio
from tasks.results.repeats import group
from tasks.results.speedup import decide, per_unit, speedup
from tasks.results.values import Estimate, RatioVerdict
from tests.tasks.examples.records import record
from tests.tasks.results.noisy_streams import Measured, SharedCore, falling, library, vm
from tests.workloads.harness.engine.streams import quiet
from workloads.harness.records.case import Case
from workloads.harness.records.record import Record, Timing, Verdict

TRUTH = 2.2
CASES = tuple(Case.of("matmul", {"n": n}) for n in (64, 128, 256, 512, 1024, 2048, 4096))
STEPS_S = (0.01, 0.03, 0.04, 0.06, 0.1)  # of a VM's two threads; quick runs are not precise from 40 ms on
Policy = Callable[[Sequence[Record]], list[Record]]


@dataclass(frozen=True, slots=True)
class Box:
    """A machine, and what befalls its repeats.

    Attributes:
        run_sd: spread of processes, in logs.
        slow_share: processes that are 5 to 80 % slow.
        busy_share: repeats beside a load, which takes `busy_log` at most, and half of it at least.
    """

    drawn: Sequence[Measured]
    run_sd: float = 0.015
    slow_share: float = 0.0
    busy_share: float = 0.0
    busy_log: float = 0.0

    def repeat(self, chance: random.Random, case: Case, name: str, step_s: float, number: int) -> Record:
        """Draw a repeat whose true time is `step_s`."""
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
    """Keep what nothing is to be said against."""
    return [one for one in records if one.ok]


def take_wide(records: Sequence[Record]) -> list[Record]:
    """Keep all, to be graded by the product."""
    return list(records)


@dataclass(slots=True)
class Tally:
    """Counts over simulated runs; coverage is of the intervals that there were.

    Attributes:
        wrong: verdicts in the wrong direction; `misled` those of them that nothing marks as provisional.
        provisional: headlines that are marked so.
        headline_misled: headlines that are decided in the wrong direction, without that mark.
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

    def row(self) -> str:
        """Return shares: of cells decided (coverage; wrong, and unmarked), then of headlines the same."""
        return (
            f"{self.decided / self.cells:.2f} ({_share(self.covered, self.intervals)}; "
            f"{self.wrong / self.cells:.3f}, {self.misled / self.cells:.3f}) | {self.given / self.runs:.2f} / "
            f"{self.headline_decided / self.runs:.2f} ({_share(self.headline_covered, self.given)}; "
            f"{self.headline_wrong / self.runs:.2f}, {self.headline_misled / self.runs:.2f}), provisional "
            f"{_share(self.provisional, self.given)}, coverage of the others "
            f"{_share(self.quiet_covered, self.given - self.provisional)}"
        )


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.3f}" if whole else "-"


def simulate(
    boxes: tuple[Box, Box], repeats: int, policy: Policy, runs: int, truth: float = TRUTH, whole: bool = False
) -> Tally:
    """Compare two machines of which the second is `truth` times as fast, in every case alike.

    `whole`: a headline needs an interval of every case, as it once did.
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
    """Return pairs of machines whose noise comes anew with each step, by what befalls them."""
    calm, noisy = library(lambda c, at_s: quiet(c, at_s, 0), (0.03,), count), library(vm, STEPS_S, count)
    one = Box(calm)
    return {
        "calm": (one, one),
        "VM": (one, Box(noisy)),
        "VM, 8 % of processes slow": (replace(one, slow_share=0.08), Box(noisy, slow_share=0.08)),
    }


def worlds(count: int) -> dict[str, tuple[Box, Box]]:
    """Return the common pairs, and those of machines on which something comes and goes."""
    common = common_worlds(count)
    one, calm = common["calm"][0], common["calm"][0].drawn

    def shared(slower: float, steps_s: Sequence[float]) -> Box:
        return Box(library(SharedCore(slower, 3), steps_s, 2 * count))

    return common | {
        "core shared, 1.4 times for 3 s": (one, shared(1.4, (0.01, 0.03))),
        "both share theirs, 1.4 times": (shared(1.4, (0.03, 0.04)), shared(1.4, (0.01, 0.03))),
        "both share theirs, twice": (shared(2, (0.03, 0.04)), shared(2, (0.01, 0.03))),
        "clock falls, tau 3 s": (one, Box(library(falling(3), (0.03, 0.1), count))),
        "clock falls, tau 10 s": (one, Box(library(falling(10), (0.03, 0.1), count))),
        "load beside 20 %, up to 35 %": (one, Box(calm, busy_share=0.2, busy_log=0.3)),
        "load beside 50 %, up to 35 %": (one, Box(calm, busy_share=0.5, busy_log=0.3)),
        "load beside all, up to 80 %": (one, Box(calm, busy_share=1.0, busy_log=0.6)),
    }


def main(count: int, runs: int, truth: float = TRUTH) -> None:
    """Print a table a world: by repeats, without wide records and with them."""
    for name, boxes in worlds(count).items():
        drawn = boxes[1].drawn
        verdicts = ", ".join(
            f"{v} {statistics.fmean(one.verdict is v for one in drawn):.2f}"
            for v in dict.fromkeys(o.verdict for o in drawn)
        )
        print(
            f"\n{name} [{verdicts}]: cells decided (coverage; wrong, unmarked) | headlines given / decided (same)"
        )
        for repeats in (2, 3, 5):
            for policy, whole in ((refuse_wide, True), (take_wide, False)):
                row = simulate(boxes, repeats, policy, runs, truth, whole).row()
                print(f"  {repeats} repeats, {policy.__name__:<12} {row}", flush=True)


if __name__ == "__main__":
    given = sys.argv[1:]
    main(*map(int, given[:2] or ("100", "200")), *map(float, given[2:]))
