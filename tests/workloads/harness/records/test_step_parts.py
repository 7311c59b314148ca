from dataclasses import replace

import pytest

from tests.workloads.harness.records.timings import FULL, timing
from workloads.harness.records.parts import Group, Rank
from workloads.harness.records.step_parts import (
    StepParts,
    card_s,
    decided_by,
    is_cards,
    job_parts,
    mostly_by,
    step_parts,
    wait_text,
)


def on_card(step_s, busy_s, exchanges=None):
    ranks = (Rank(0, "cuda:0", step_s), Rank(1, "cuda:1", step_s))
    group = None if exchanges is None else Group("nccl", "strong", ranks, exchanges)
    return replace(
        FULL, device_time=timing(median_s=step_s, mean_s=step_s), device_busy_s=busy_s, group=group
    )


def test_the_parts_add_up_to_the_mean_step_of_the_repeats():
    parts = step_parts([on_card(10.0, 6.0, 0.1), on_card(12.0, 6.0, 0.1)], without_loader_s=9.0)
    assert parts.step_s == pytest.approx(11.0)
    assert (parts.device, parts.exchange) == (pytest.approx(6.0 - 1.1), pytest.approx(1.1))
    assert (parts.loader, parts.host) == (pytest.approx(2.0), pytest.approx(3.0))


def test_a_step_whose_device_time_is_unknown_has_no_parts():
    assert step_parts([replace(FULL, device_busy_s=None)]) is None and card_s([FULL]) == []


def test_the_loaders_part_is_at_most_the_waiting():
    assert step_parts([on_card(10.0, 9.0)], without_loader_s=5.0).loader == pytest.approx(1.0)


def test_a_job_that_is_longer_than_its_computation_waits_for_data():
    assert job_parts(10.0, StepParts(3.0, 1.0)) == StepParts(3.0, 1.0, 6.0, 0.0)
    assert job_parts(2.0, StepParts(3.0, 1.0)) == StepParts(1.5, 0.5, 0.0, 0.0)


@pytest.mark.parametrize(
    ("before", "after", "part"),
    [
        (StepParts(31, 17), StepParts(29, 3), "host"),
        (StepParts(30, 3), StepParts(15, 2), "the card"),
        (StepParts(10, 1, 9), StepParts(10, 1, 1), "loader"),
        (StepParts(10, 1, 0, 9), StepParts(10, 1, 0, 1), "exchange"),
        (StepParts(10, 1), StepParts(10, 9), "host"),  # slower, by its host
    ],
)
def test_a_ratio_is_named_by_the_part_that_differs_most(before, after, part):
    assert mostly_by(before.step_s / after.step_s, before.device / after.device, before, after) == part


def test_a_ratio_within_five_percent_of_the_cards_is_the_cards():
    assert is_cards(1.05, 1.0) and not is_cards(1.06, 1.0)
    assert decided_by(StepParts(10, 1), StepParts(10, 1)) == "device"


def test_the_side_that_waits_more_is_named_with_its_share():
    text = wait_text(("slow", StepParts(6, 4)), ("fast", StepParts(6, 1)))
    assert text.startswith("slow's card waits for its host for 40 % of a step; CUDA graphs")
    text = wait_text(("a", StepParts(6, 0, 0, 1)), ("b", StepParts(6, 0, 0, 6)))
    assert text.startswith("b's cards exchange gradients for 50 % of a step")


def test_a_wait_that_ate_a_part_of_the_cards_gain_has_its_own_cause():
    text = wait_text(("A", StepParts(10, 0)), ("B", StepParts(5, 0, 3)))
    assert text.startswith("B's card waits for its loader for 38 % of a step")
    text = wait_text(("A", StepParts(10, 0)), ("B", StepParts(5, 0, 0, 3)))
    assert text.startswith("B's cards exchange gradients for 38 % of a step")
