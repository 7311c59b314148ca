from dataclasses import replace

import pytest

from tasks.planning.hardware import load_hardware
from tasks.prediction.evidence import Evidence, evidence_in
from tasks.prediction.step import predict
from tests.tasks.examples.two_cards import two_cards

HOSTS = {"h100": 1.0, "h200": 1.86}  # a loop of Python took 17.5 ms and 9.4 ms


def machines():
    like = load_hardware("lambda-1x-h100-sxm")
    return {name: like.model_copy(update={"name": name, "gpu": f"{name}-sxm"}) for name in ("h100", "h200")}


def known(host=False):
    records = two_cards()
    if host:
        records = [
            replace(r, probes=r.probes | {"python_steps_per_s": 1e8 * HOSTS[r.hardware]}) for r in records
        ]
    return evidence_in([*machines().values()], records)


def without(evidence, hardware, case):
    return Evidence(tuple((m, c) for m, c in evidence.cells if m.name != hardware or c.cell.case != case))


def held_out(evidence):
    both = machines()
    for machine, cell in evidence.cells:
        (target,) = (m for m in both.values() if m.name != machine.name)
        (truth,) = (c for m, c in evidence.cells if m.name == target.name and c.cell.case == cell.cell.case)
        seconds = sum(truth.compute_s) / len(truth.compute_s)
        yield predict(cell, machine, target, without(evidence, target.name, cell.cell.case)), seconds


@pytest.mark.parametrize(("host", "most"), [(False, 0.12), (True, 0.1)])
def test_intervals_hold_the_truth_between_two_cards(host, most):
    rows = [(row.step_s, truth) for row, truth in held_out(known(host))]
    assert len(rows) == 10 and sum(step.low <= truth <= step.high for step, truth in rows) >= 9
    assert sorted(abs(step.value / truth - 1) for step, truth in rows)[5] < most


def test_a_measured_host_corrects_the_part_that_the_card_does_not_explain():
    for host, expected in ((False, "host unknown"), (True, "host measured")):
        rows = {(r.case.workload, r.target): (r, truth) for r, truth in held_out(known(host))}
        row, truth = rows["lora_step", "h200"]
        assert expected in "; ".join(row.rests_on) and row.parts["host"] > 0.1
    assert row.step_s.low < truth < row.step_s.high and row.step_s.value == pytest.approx(truth, rel=0.2)


def test_cases_that_both_have_measured_make_an_interval_narrower():
    evidence, both = known(), machines()
    (cell,) = (c for m, c in evidence.cells if m.name == "h100" and c.cell.case.workload == "llm_decode")
    alone = predict(cell, both["h100"], both["h200"], Evidence())
    more = predict(cell, both["h100"], both["h200"], without(evidence, "h200", cell.cell.case))
    assert more.width < alone.width and "data sheets" in alone.rests_on and "measured roofs" in more.rests_on


def test_the_same_card_elsewhere_differs_by_its_box_and_host_alone():
    evidence, both = known(), machines()
    (cell,) = (c for m, c in evidence.cells if m.name == "h100" and c.cell.case.workload == "llm_decode")
    row = predict(cell, both["h100"], both["h100"].model_copy(update={"name": "other"}), Evidence())
    assert row.step_s.value == pytest.approx(row.measured_s, rel=0.02) and row.width < 2
    assert row.rests_on[0] == "the same card"


def test_a_step_of_work_that_each_machine_chooses_is_not_predicted():
    records = [replace(r, work=replace(r.work, chosen=(1, 2, 3))) if r.work else r for r in two_cards()]
    rows = [row for row, _ in held_out(evidence_in([*machines().values()], records))]
    assert rows and all("chooses the work" in row.refused for row in rows)


def test_the_bound_of_a_predicted_step_is_named():
    rows = {(r.case.workload, r.target): r for r, _ in held_out(known())}
    assert rows["memory_bandwidth", "h200"].bound == "memory 100 %"
    assert rows["matmul", "h200"].bound.startswith("compute")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"device": "cpu", "gpu": None, "gpus": 0}, "measure it on any other machine with one"),
        ({"gpu": None}, "the rates of h200 in bf16 are unknown: `gridbench run acceptance --on h200`"),
        ({"gpu_memory_gb": 8.0}, "and h200 has 8.59 GB"),
    ],
)
def test_nothing_is_predicted_where_the_bound_is_unknown(change, says):
    evidence, both = known(), machines()
    (cell,) = (c for m, c in evidence.cells if m.name == "h100" and c.cell.case.workload == "gpt2_train")
    row = predict(cell, both["h100"], both["h200"].model_copy(update=change), Evidence())
    assert row.step_s is None and says in row.refused


def test_without_the_cards_own_time_nothing_is_predicted():
    evidence, both = known(), machines()
    (cell,) = (c for m, c in evidence.cells if m.name == "h100" and c.cell.case.workload == "gpt2_train")
    blind = replace(cell, usable=tuple(replace(r, device_busy_s=None) for r in cell.usable))
    assert "for how long the card waits" in predict(blind, both["h100"], both["h200"], Evidence()).refused
