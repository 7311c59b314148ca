from dataclasses import replace

import pytest

from tasks.findings.compare import compare
from tasks.findings.device.cards_at_once import CardsAtOnce
from tests.tasks.examples.records import A10G, machine, record
from workloads.harness.records.case import Case
from workloads.harness.records.parts import Group, Rank
from workloads.harness.records.record import Work

CASE = Case.of("matmul_weak", {"n": 8192, "processes": 4}, "fp16")
STEP_S = 2e-3
WORK = Work(4, "products", 4 * 2 * 8192**3, 1e9)


def at_once(slower=(1.0, 1.0, 1.0, 1.0), alone=0.97, repeats=2, **changes):
    """Return repeats of four cards, each `slower` than the first; alone a card takes a share of its time."""
    made = []
    for number in range(repeats):
        steps = [STEP_S * factor * (1 + 1e-3 * number) for factor in slower]
        ranks = tuple(
            Rank(
                place,
                f"cuda:{place}",
                step_s,
                mean_s=step_s,
                alone_s=step_s * alone,
                probes={"gpu_power_w": 690.0 + number, "gpu_temperature_c": 60.0 + 10 * number + place},
            )
            for place, step_s in enumerate(steps)
        )
        group = Group("nccl", "weak", ranks)
        fields = {"group": group, "work": WORK, "device": "cuda", "environment": A10G} | changes
        made.append(record(max(steps), CASE, "box", number, **fields))
    return made


def found_in(records):
    return compare(records, [machine("box", devices=4)], "box").finding(CardsAtOnce)


def test_each_card_has_its_rate_its_power_and_its_heat():
    cards = found_in(at_once()).cards
    assert [card.device for card in cards] == ["cuda:0", "cuda:1", "cuda:2", "cuda:3"]
    assert cards[0].rate == "549.5 TFLOP/s"
    assert cards[3].readings == {"gpu_power_w": 690.5, "gpu_temperature_c": 73.0}
    assert cards[0].of_alone.value == pytest.approx(0.97) and cards[0].of_alone.low is not None
    row = found_in(at_once()).table().rows[3]
    assert (row[7], row[8]) == (690, 73) and row[9] is None  # a clock that was not read


def test_the_slowest_is_named_with_its_share_of_the_fastest():
    finding = found_in(at_once((1.0, 1.0, 1.25, 1.0)))
    assert [round(card.of_fastest.value, 3) for card in finding.cards] == [1, 1, 0.8, 1]
    (sentence,) = finding.observations()
    assert "cuda:2 is the slowest" in sentence and "gpu-fryer" in sentence
    (sentence,) = found_in(at_once((1.0, 1.0, 1.05, 1.0))).observations()
    assert "cuda:2 is the slowest" in sentence and "gpu-fryer" not in sentence


def test_groups_without_times_of_single_processes_have_no_finding():
    records = [
        replace(one, group=replace(one.group, ranks=tuple(replace(r, alone_s=None) for r in one.group.ranks)))
        for one in at_once()
    ]
    finding = found_in(records)
    assert (finding.cards, finding.table(), finding.observations()) == ((), None, ())
