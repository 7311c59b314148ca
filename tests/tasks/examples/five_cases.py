"""A handmade run of two machines and five cases: wide results, a refused repeat, spot prices."""

from dataclasses import replace

from tasks.findings.compare import compare
from tasks.results.comparison import Comparison
from tasks.results.sessions import WITHIN
from tests.tasks.examples.reports import BASELINE, CASES, MACHINES, good_record
from workloads.harness.records.record import Record, Verdict

NAMES = (BASELINE, "aws-g5.8xlarge")
FIVE = (CASES[0], CASES[1], CASES[3], CASES[6], CASES[7])


def run() -> tuple[list[Record], Comparison]:
    """Return three repeats of each cell: one case imprecise, one repeat of another throttled."""
    made = [good_record(name, case, repeat) for case in FIVE for name in NAMES for repeat in range(3)]
    imprecise = "90 samples did not make the median precise before the cap; it is known to ±2.6%"
    made = [
        replace(each, verdict=Verdict.IMPRECISE, reasons=(imprecise,)) if each.case == FIVE[2] else each
        for each in made
    ]
    made[-1] = replace(made[-1], verdict=Verdict.THROTTLED, reasons=("the clock fell by 31 %",))
    return made, compare(made, MACHINES[:2], BASELINE, sessions=WITHIN)
