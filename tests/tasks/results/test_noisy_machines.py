from dataclasses import replace

import pytest

from tests.tasks.examples.records import timing
from tests.tasks.results.noisy_machines import Box, refuse_wide, simulate, take_wide
from tests.tasks.results.noisy_streams import Measured
from workloads.harness.records.record import Verdict

CALM = Measured(Verdict.OK, 0.0, timing(1.0))
ERRORS = (-0.02, -0.01, 0.0, 0.01, 0.02)
SHAKY = [replace(CALM, verdict=Verdict.IMPRECISE if error else Verdict.OK, error=error) for error in ERRORS]
BOXES = Box([CALM]), Box(SHAKY)


@pytest.mark.parametrize("repeats", [2, 3])
def test_wide_results_decide_more_than_refused_ones_and_cover_the_truth(repeats):
    before = simulate(BOXES, repeats, refuse_wide, runs=20, whole=True)
    now = simulate(BOXES, repeats, take_wide, runs=20)
    assert before.decided / before.cells < 0.2 and before.given <= 1
    assert now.decided / now.cells > 0.95 and now.headline_decided == now.given == now.runs
    assert now.covered / now.intervals > 0.9 and now.headline_covered / now.given >= 0.85


def test_load_beside_a_part_of_the_repeats_moves_no_headline():
    loaded = Box([CALM], busy_share=0.2, busy_log=0.3)
    now = simulate((BOXES[0], loaded), 5, take_wide, runs=20)
    assert now.headline_covered / now.given >= 0.85


@pytest.mark.parametrize(("share", "turned"), [(0.5, 0.05), (1.0, 0.3)])
def test_a_load_turns_a_verdict_around_only_where_it_is_called_provisional(share, turned):
    loaded = Box([CALM], busy_share=share, busy_log=0.6)
    now = simulate((BOXES[0], loaded), 2, take_wide, runs=20, truth=1.1)
    assert now.wrong / now.cells > turned and now.misled == 0
    assert now.headline_wrong > 0 and now.headline_misled == 0


def test_equal_machines_are_rarely_called_unequal():
    now = simulate((BOXES[0], Box(SHAKY)), 3, take_wide, runs=20, truth=1.0)
    assert now.wrong / now.cells < 0.1
