"""The stop rule over simulated streams: `python -m tests.benchmarks.simulated.samples [--streams N] [--write]`.

It prints the table of docs/measuring.md (`--write` puts it there). A record is wrong if its mean is off by
more than 1 %. Ten minutes for 1,000 streams a cell.
"""

import argparse
import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from tests.benchmarks.simulated.part import Part
from tests.docs import tables
from tests.workloads.harness.engine import streams as s
from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.engine.sampling.summary import sustained

STEPS_S = (0.01, 0.04, 0.1)  # of the targets
PATIENCES = (("full", Rules()), ("quick", Rules().quick()))
MARK = "streams"
BESIDE = 1.5 / (1 / 1.08 + 0.5)  # mean time of a step, of which more are taken while the neighbour is away


@dataclass(frozen=True)
class World:
    """A noise, and its mean as a multiple of a step."""

    name: str
    noise: object
    true: float


WORLDS = (
    World("quiet, 0.3 %", s.quiet, 1.0),
    World("even noise of 2.7 %", s.gauss, 1.0),
    World("cloud: 4 %, and 8 % of the steps up to twice as slow", s.cloud, 1.08),
    World("4 %, and 8 % of the steps take twice as long", s.twice, 1.08),
    World("Student's t with two degrees of freedom, 1 %", s.heavy, 1.0),
    World("neighbour, 1 s of each 1.5 s, 8 %", s.neighbour, BESIDE),
    World("neighbour, 1 s on and 0.5 s off on average, 8 %", s.Telegraph, BESIDE),
    World("thermal cycle of 2 s, 3 %", s.thermal, 1.0),
    World("two modes, 6 % apart", s.bimodal, 1.03),
    World("AR(1) .9, 2 %", s.Correlated, 1.0),
    World("AR(1) .99, 2 %", s.Slow, 1.0),
    World("clock falls by 10 %, 1 s", s.ramp(tau_s=1.0), 1.0),
    World("clock falls by 10 %, 3 s", s.ramp(tau_s=3.0), 1.0),
    World("clock falls by 10 %, 10 s", s.ramp(tau_s=10.0), 1.0),
    World("1 % slower each second, for ever", s.drift, math.inf),
)
# The share of ok records, and of wrong ones among these, by the rule of commit d1e4668, which asked for a precise median:
# 1,000 of these streams for each length of a step.
BEFORE = {
    "quiet, 0.3 %, full": "1.00/1.00/1.00, 0.00/0.00/0.00",
    "quiet, 0.3 %, quick": "1.00/1.00/1.00, 0.00/0.00/0.00",
    "even noise of 2.7 %, full": "1.00/1.00/0.52, 0.00/0.01/0.01",
    "even noise of 2.7 %, quick": "1.00/0.45/0.02, 0.00/0.01/0.11",
    "cloud: 4 %, and 8 % of the steps up to twice as slow, full": "1.00/0.60/0.02, 0.65/0.72/0.88",
    "cloud: 4 %, and 8 % of the steps up to twice as slow, quick": "0.92/0.02/0.00, 0.70/0.89/1.00",
    "4 %, and 8 % of the steps take twice as long, full": "1.00/0.58/0.01, 0.56/0.61/0.92",
    "4 %, and 8 % of the steps take twice as long, quick": "0.92/0.01/0.00, 0.61/0.86/–",
    "Student's t with two degrees of freedom, 1 %, full": "1.00/1.00/0.98, 0.01/0.03/0.06",
    "Student's t with two degrees of freedom, 1 %, quick": "1.00/1.00/0.62, 0.01/0.04/0.06",
    "neighbour, 1 s of each 1.5 s, 8 %, full": "0.00/0.00/0.00, –/–/–",
    "neighbour, 1 s of each 1.5 s, 8 %, quick": "0.00/0.00/0.00, –/–/–",
    "neighbour, 1 s on and 0.5 s off on average, 8 %, full": "0.62/0.57/0.49, 0.90/0.92/0.98",
    "neighbour, 1 s on and 0.5 s off on average, 8 %, quick": "0.66/0.63/0.49, 0.91/0.94/1.00",
    "thermal cycle of 2 s, 3 %, full": "0.00/0.00/0.00, –/–/–",
    "thermal cycle of 2 s, 3 %, quick": "0.00/0.00/0.00, –/–/–",
    "two modes, 6 % apart, full": "0.04/0.03/0.03, 0.00/0.50/1.00",
    "two modes, 6 % apart, quick": "0.03/0.04/0.03, 0.00/0.80/1.00",
    "AR(1) .9, 2 %, full": "0.91/0.52/0.50, 0.06/0.35/0.47",
    "AR(1) .9, 2 %, quick": "0.50/0.32/0.35, 0.13/0.42/0.57",
    "AR(1) .99, 2 %, full": "0.63/0.91/0.96, 0.47/0.57/0.61",
    "AR(1) .99, 2 %, quick": "0.61/0.84/0.75, 0.52/0.59/0.61",
    "clock falls by 10 %, 1 s, full": "1.00/1.00/1.00, 0.00/0.00/0.00",
    "clock falls by 10 %, 1 s, quick": "1.00/0.97/0.75, 0.00/0.00/0.00",
    "clock falls by 10 %, 3 s, full": "1.00/1.00/0.99, 0.00/0.16/0.51",
    "clock falls by 10 %, 3 s, quick": "0.00/0.03/0.02, –/1.00/1.00",
    "clock falls by 10 %, 10 s, full": "0.09/0.43/0.88, 1.00/1.00/1.00",
    "clock falls by 10 %, 10 s, quick": "0.00/0.09/0.07, –/1.00/1.00",
    "1 % slower each second, for ever, full": "0.00/0.00/0.02, –/–/1.00",
    "1 % slower each second, for ever, quick": "0.00/0.04/0.01, –/1.00/1.00",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("worlds", nargs="*", help="parts of names of worlds")
    given = parser.parse_args()
    heading = f"{given.streams} streams a cell:"
    tables.show(heading, table(given.streams, given.worlds), "measuring.md", MARK, given.write)


def table(count: int, worlds: list[str]) -> Iterator[str]:
    """Yield the lines of the table, with values for steps of 10, 40 and 100 ms of a full and a quick suite."""
    yield "| stream | ok | wrong among ok | interval holds the mean | seconds |"
    yield "| --- " * 5 + "|"
    for world in WORLDS:
        if not worlds or any(part in world.name for part in worlds):
            shown = []
            for _, rules in PATIENCES:
                rows = [s.row(s.streams(world.noise, step_s, count, rules), world.true) for step_s in STEPS_S]
                ok, wrong, _, _, held, seconds = columns(rows)
                shown.append((ok, wrong, held, seconds))
            yield f"| {world.name} | {' | '.join(map(', '.join, zip(*shown, strict=True)))} |"


def part() -> Part:
    counted = (
        "the share of ok records; of these, that of a mean off by more than 1 %; of all records, that of both; steps "
        "of 10, 40 and 100 ms; before: the first two of these, if a precise median was enough"
    )
    worlds = {
        f"{world.name}, {name}": partial(_wrong, world, BEFORE[f"{world.name}, {name}"], rules)
        for world in WORLDS
        for name, rules in PATIENCES
    }
    return Part(counted, worlds)


def _wrong(world: World, before: str, rules: Rules, count: int) -> tuple[str, str]:
    rows = [s.row(s.streams(world.noise, step_s, count, rules), world.true) for step_s in STEPS_S]
    return before, ", ".join(columns(rows)[:3])


def power_limit() -> Part:
    counted = (
        "the share of ok records and of intervals that hold the long-run mean, and half of their median width; "
        "before: the first alone"
    )
    worlds = {
        f"steps of {1e3 * step_s:g} ms, {name}": partial(_capped, step_s, rules)
        for name, rules in PATIENCES
        for step_s in (1.6e-3, 60e-3)
    }
    return Part(counted, worlds)


def _capped(step_s: float, rules: Rules, count: int) -> tuple[str, str]:
    found = s.streams(s.PowerCapped, step_s, count, rules.on_device())
    rates = [
        sustained(each.sampled.samples_s, each.block * each.blocks, each.rules.batch_s) for each in found
    ]
    held = s.share(rate.low_s <= step_s <= rate.high_s for rate in rates)
    half = statistics.median((rate.high_s - rate.low_s) / 2 / step_s for rate in rates)
    return ".00 to .02", f"{s.share(each.ok for each in found):.2f}, {held:.2f}, {100 * half:.2f} %"


def columns(rows: list[s.Row]) -> list[str]:
    """Return by length of a step the shares of ok records, of wrong ones among these, of both, and more."""
    shares = (
        [f"{row.ok:.2f}" for row in rows],
        [f"{row.wrong:.2f}" if row.ok else "–" for row in rows],
        [f"{row.ok * row.wrong:.3f}" for row in rows],
        [f"{row.unsteady:.2f}" for row in rows],
        ["–" if math.isnan(row.covered) else f"{row.covered:.2f}" for row in rows],
        [f"{row.seconds:.1f}" for row in rows],
    )
    return ["/".join(share) for share in shares]


if __name__ == "__main__":
    main()
