from dataclasses import replace

import pytest

from tasks.findings.answer import MOST_WORDS
from tasks.findings.compare import compare
from tasks.findings.device.speedup_parts import SpeedupParts
from tests.tasks.examples.records import IMAGES, machine
from tests.tasks.examples.two_cards import two_cards
from tests.tasks.findings.test_device import compared, on_gpu
from workloads.harness.records.case import Case
from workloads.harness.records.parts import Group, Rank


@pytest.fixture(scope="module")
def splits():
    found = compare(two_cards(), [machine("h100"), machine("h200")], "h100").finding(SpeedupParts)
    return {split.case.partition("/")[0]: split for split in found.splits}


@pytest.mark.parametrize(
    ("workload", "by_card", "is_cards"),
    [
        ("memory_bandwidth", 1.42, True),
        ("matmul", 1.00, True),
        ("llm_decode", 1.27, True),
        ("gpt2_train", 1.11, True),
        ("lora_step", 1.06, False),
    ],
)
def test_the_cards_part_is_distinguished_from_the_hosts(splits, workload, by_card, is_cards):
    split = splits[workload]
    assert split.by_card.value == pytest.approx(by_card, rel=0.02) and split.is_cards is is_cards
    assert split.before.step_s / split.after.step_s == pytest.approx(split.total.estimate.value, rel=0.02)


def test_a_speedup_decided_by_the_host_is_explained(splits):
    split = splits["lora_step"]
    assert split.decided_by == "host" and split.total.estimate.value == pytest.approx(1.54, rel=0.01)
    sentence = split.sentence()
    assert all(
        fact in sentence
        for fact in ("~1.5×", "~1.1× by the card", "h100's card waits", "37 %", "CUDA graphs")
    )


def test_a_card_at_its_power_limit_is_not_called_waiting(splits):
    """Its own pass takes 1.40 ms of 1.64, a burst after a pause."""
    assert max(side.waiting_share for side in (splits["matmul"].before, splits["matmul"].after)) < 0.02
    assert splits["matmul"].by_card.value == pytest.approx(1.0, rel=0.02)


def test_the_case_in_which_waiting_decides_most_comes_first():
    comparison = compare(two_cards(), [machine("h100"), machine("h200")], "h100")
    rows = comparison.finding(SpeedupParts).table().rows
    assert rows[0][1].startswith("lora_step") and rows[0][-1] == "host"
    assert any(split in detail for detail in comparison.details for split in ("1.1× by the card",))


def test_three_repeats_give_the_cards_part_an_interval():
    found = compared(on_gpu(IMAGES, 0.5, hardware="slow"), on_gpu(IMAGES, 0.9, hardware="fast"))
    (split,) = found.finding(SpeedupParts).splits
    assert split.by_card.low < 0.5 / 0.9 < split.by_card.high
    assert split.by_card.value == pytest.approx(0.5 / 0.9, rel=0.01)


@pytest.mark.parametrize(("slow", "fast", "says"), [(0.5, 0.95, True), (0.95, 0.95, False)])
def test_the_answer_never_calls_a_hosts_speedup_the_cards(slow, fast, says):
    """The slow machine's card waits for half of each step."""
    slower = [
        replace(r, wall=twice(r.wall), device_time=twice(r.device_time))
        for r in on_gpu(IMAGES, hardware="slow")
    ]
    slower = [replace(r, device_busy_s=slow * r.device_time.median_s) for r in slower]
    answer = compared(slower, on_gpu(IMAGES, fast, hardware="fast")).answer[0]
    assert answer.startswith("Fastest: fast") and ("by the card" in answer) is says
    assert len(answer.split()) <= MOST_WORDS


def twice(step):
    return replace(
        step,
        samples_s=tuple(2 * s for s in step.samples_s),
        median_s=2 * step.median_s,
        mean_s=step.mean_s and 2 * step.mean_s,
        ci_low_s=step.ci_low_s and 2 * step.ci_low_s,
        ci_high_s=step.ci_high_s and 2 * step.ci_high_s,
    )


def test_without_device_times_nothing_is_split():
    found = compared(on_gpu(IMAGES, hardware="slow"), on_gpu(IMAGES, hardware="fast"))
    assert found.finding(SpeedupParts).splits == () and found.finding(SpeedupParts).table() is None


def in_group(records, share):
    """Return the records of two ranks on busy cards that exchange gradients for a share of each step."""
    ranks = (Rank(0, "cuda:0", 1e-3), Rank(1, "cuda:1", 1e-3))
    return [
        replace(r, group=Group("nccl", "strong", ranks, share), device_busy_s=r.device_time.median_s)
        for r in records
    ]


def test_exchanging_gradients_is_not_the_cards_time():
    slow = [
        replace(r, wall=twice(r.wall), device_time=twice(r.device_time))
        for r in on_gpu(IMAGES, 1.0, hardware="pcie")
    ]
    found = compared(in_group(slow, 0.5), in_group(on_gpu(IMAGES, 1.0, hardware="nvlink"), 0.0))
    (split,) = found.finding(SpeedupParts).splits
    assert split.total.estimate.value == pytest.approx(2.0, rel=0.02)
    assert split.by_card.value == pytest.approx(1.0, rel=0.02) and not split.is_cards
    assert (
        split.decided_by == "exchange"
        and "pcie's cards exchange gradients for 50 % of a step" in split.sentence()
    )


def test_without_a_case_with_a_loader_no_wait_is_the_loaders():
    small = [Case.of("matmul", {"n": n}) for n in (256, 512)]
    records = [r for case in small for name in ("a", "b") for r in on_gpu(case, 0.6, hardware=name)]
    assert {split.before.loader for split in compared(records).finding(SpeedupParts).splits} == {0.0}
