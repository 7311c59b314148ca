from dataclasses import replace

import pytest

from tasks.findings.bottleneck import bottlenecks, bound_text, with_bounds
from tasks.findings.compare import compare
from tasks.results.repeats import group, key
from tasks.results.summaries import summarise
from tests.tasks.examples.records import machine, record, repeats
from workloads.harness.records.case import Case
from workloads.harness.records.record import Verdict, Work
from workloads.harness.roofline.roofline import UNEXPLAINED, Bound

SMALL, LARGE, BLUR = (
    Case.of("matmul", {"n": 1000}),
    Case.of("matmul", {"n": 5000}),
    Case.of("gaussian_blur", {"pixels": 2048}),
)
PEAK = 1e12  # FLOP/s that the large product reaches
STEP = Work(1, "images", 0.7 * PEAK, 1.0)


def run(hardware="cpu-box", peak=PEAK):
    """Return a large product at the peak, a small one at a quarter of it, a blur of one second at 70 %."""
    return [
        *repeats([2 * 5000**3 / peak] * 3, LARGE, hardware),
        *repeats([4 * 2 * 1000**3 / peak] * 3, SMALL, hardware),
        record(1.0, BLUR, hardware, work=STEP),
    ]


def cells(records, implausible=()):
    found = group(records, [machine()], {key(r): ("too quick",) for r in implausible})
    return {cell.cell.case: cell for cell in found}


def test_each_cell_is_compared_with_the_ceilings_of_its_own_run():
    found = {cell.case: bound for cell, bound in bottlenecks(list(cells(run()).values())).items()}
    assert (found[LARGE].by, found[LARGE].share) == ("compute", pytest.approx(1.0))
    assert (found[SMALL].by, found[SMALL].shares["compute"]) == (UNEXPLAINED, pytest.approx(0.25))
    assert (found[BLUR].by, found[BLUR].share) == ("compute", pytest.approx(0.7))


def test_an_implausible_record_is_no_ceiling():
    records = run()
    made = cells(records, implausible=[r for r in records if r.case == LARGE])
    found = {cell.case: bound for cell, bound in bottlenecks(list(made.values())).items()}
    assert LARGE not in found
    assert found[SMALL].share == pytest.approx(1.0)  # the largest product that is left


def test_one_machine_is_no_ceiling_of_another():
    records = [*run(), record(1.0, BLUR, "other-box", work=STEP)]
    found = {cell.id: bound for cell, bound in bottlenecks(group(records, [machine()], {})).items()}
    other = found["other-box/gaussian_blur/pixels=2048/fp32"]
    assert other.shares == {}
    assert other.why == "unexplained: no ceiling of this machine was measured"


def test_summaries_have_the_bound_of_their_cell_and_none_where_nothing_counts():
    records = [*run(), replace(record(1.0, Case.of("edges", {"n": 1})), verdict=Verdict.THROTTLED)]
    made = group(records, [machine()], {})
    found = with_bounds(summarise(made, [machine()]), made)
    assert [summary.bound.by if summary.bound else None for summary in found] == [
        "compute",
        UNEXPLAINED,
        "compute",
        None,
    ]
    assert found == compare(records, [machine()], "cpu-box").summaries


def test_in_a_few_words():
    assert bound_text(Bound("compute", {"compute": 0.834})) == "compute, 83 %"
    assert bound_text(Bound(UNEXPLAINED, {"compute": 0.1})) == "unexplained"
