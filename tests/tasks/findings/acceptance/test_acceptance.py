import math
import random
from dataclasses import replace

import pytest

from tasks.findings.acceptance.acceptance import Acceptance
from tasks.findings.acceptance.advice import Advice
from tasks.findings.compare import compare
from tests.tasks.examples.records import A10G, machine, record, timing
from workloads.harness.records.case import Case
from workloads.harness.records.record import Verdict, Work

GEMM = Case.of("gemm", {"m": 8192, "n": 8192, "k": 8192}, "fp16")
COPY = Case.of("memory_bandwidth", {"mib": 1024})
STEP = Case.of("transformer_train", {"width": 1024, "length": 512, "batch": 8}, "fp16")
SECONDS = {GEMM: 1.1e12 / 45e12, COPY: 2.15e9 / 500e9, STEP: 0.08}
WORK = {
    GEMM: Work(1, "products", 1.1e12, 4e8),
    COPY: Work(2.15e9, "bytes", 0.0, 2.15e9),
    STEP: Work(8, "samples", 1e12, 1e9),
}
SIBLINGS = ("b", "c", "d", "e", "f", "g", "h", "i")


def box(name, slower=1.0, run="now", seed=None, drift=1.02, cases=SECONDS, noise=0.004, count=2, **facts):
    """Return two repeats of each case on its own GPU; `slower` is a factor on all, or by case."""
    chance = random.Random(seed if seed is not None else name)
    level = math.exp(chance.gauss(0, 0.01))
    facts = A10G | {"gpus": [{"name": "NVIDIA A10G", "uuid": f"GPU-{name}"}], "hostname": name} | facts
    made = []
    for case in cases:
        factor = level * (slower.get(case, 1.0) if isinstance(slower, dict) else slower)
        for repeat in range(count):
            seconds = SECONDS[case] * factor * math.exp(chance.gauss(0, noise))
            device = timing(seconds, f"{run}{name}{case.id}{repeat}")
            burst_s = seconds / (drift * math.exp(chance.gauss(0, noise))) if case is GEMM else None
            made.append(
                record(
                    seconds, case, f"box-{name}", repeat, run=run, work=WORK[case], environment=facts,
                    device="cuda", device_time=device, started_at=f"2026-07-2{len(run) % 10}T00:00:00+00:00",
                    wall=replace(timing(seconds, f"{run}{name}{case.id}{repeat} on the host"), burst_s=burst_s),
                )
            )  # fmt: skip
    return made


POPULATION = [made for name in SIBLINGS for made in box(name, run=f"run-{name}")]
A10G_CARD = {
    "peak_flops": (("fp32", 35e12), ("fp16", 70e12)), "peak_bytes_per_s": 600e9, "reach": 0.4, "devices": 1,
}  # fmt: skip


def advised(records, population=(), *, names=("box-a",), **changes):
    comparison = compare(
        records, [machine(name, **changes) for name in names], names[0], population=population
    )
    found = comparison.finding(Acceptance)
    assert comparison.answer[: len(found.headline())] == found.headline()
    assert set(found.details()) <= set(comparison.details)
    return found, next(iter(found.details()), "")


def test_a_run_that_does_not_ask_gets_no_order():
    found, _ = advised(box("a"), None)
    assert (found.machines, found.table(), found.exit_code, found.headline()) == ((), None, 0, ())
    assert found.published() == {"acceptance": []}


def test_a_good_card_is_kept_and_how_sure_that_is_stands_in_the_sentence():
    found, text = advised(box("a"), POPULATION)
    (only,) = found.machines
    assert (only.advice, only.siblings, found.exit_code) == (Advice.KEEP, 8, 0)
    assert text.startswith("Keep box-a: in each of 4 measures it is at most ")
    assert all(fact in text for fact in ("its 8 siblings", "97.5 %", "at most 1 in 40", "10 % slower"))
    assert only.kind == "NVIDIA A10G with torch 2.13.0, CUDA 12.8 and driver 570"
    assert [row[2] for row in found.table().rows] == [
        GEMM.id, f"{GEMM.id}, drift over its soak", COPY.id, STEP.id,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"slower": 1.2}, None),
        ({"slower": {COPY: 1.2}}, COPY.id),
        ({"slower": {GEMM: 1.2}}, GEMM.id),
        ({"drift": 1.2}, f"{GEMM.id}, drift over its soak"),
    ],
)
def test_a_slow_card_is_returned_with_its_slow_case(changes, named):
    found, text = advised(box("a", **changes), POPULATION)
    (only,) = found.machines
    assert (only.advice, found.exit_code) == (Advice.RETURN, 4)
    assert named is None or [held.name for held in only.slow] == [named]
    worst = only.slow[0]
    assert text.startswith(f"Return box-a: {worst.name} takes 1.") and "its 8 siblings" in text
    assert "the limit is 1 in 100" in text
    assert worst.ratio.low < 1.2 < worst.ratio.high * 1.02 and worst.chance < 0.0025


def test_a_product_that_differs_between_machines_is_held_by_its_rate():
    """A larger product takes longer for more operations."""
    larger = [
        replace(each, work=replace(each.work, units=2.0), wall=timing(2 * each.mean_s), device_time=None)
        for each in box("a", cases=(STEP,))
    ]
    smaller = [replace(each, work=replace(each.work, units=1.0)) for each in POPULATION if each.case is STEP]
    found, _ = advised(larger, smaller)
    assert found.machines[0].advice is Advice.KEEP
    assert found.machines[0].held[0].ratio.value == pytest.approx(1, abs=0.05)


def test_less_than_5_percent_is_nothing_to_return_a_card_for_however_alike_its_siblings_are():
    alike = [made for name in SIBLINGS for made in box(name, run=f"run-{name}", seed=7, noise=1e-4)]
    found, _ = advised(box("a", 1.04, seed=7, noise=1e-4), alike)
    assert found.machines[0].advice is Advice.KEEP
    assert advised(box("a", 1.06, seed=7, noise=1e-4), alike)[0].machines[0].advice is Advice.RETURN


def test_a_card_in_between_is_undecided_with_advice():
    few = [
        made
        for name in "bcd"
        for made in box(name, {COPY: {"b": 0.97, "c": 1.0, "d": 1.03}[name]}, f"r-{name}")
    ]
    found, text = advised(box("a", {COPY: 1.1}), few)
    assert (found.machines[0].advice, found.exit_code) == (Advice.UNDECIDED, 3)
    assert text.startswith(f"Undecided whether to keep box-a: {COPY.id} takes 1.")
    assert "not shown to be below 1.10×" in text and "more siblings or repeats would decide" in text


@pytest.mark.parametrize("siblings", [0, 1, 2])
def test_without_siblings_and_published_rates_it_says_who_would_decide(siblings):
    few = [made for name in SIBLINGS[:siblings] for made in box(name, run=f"run-{name}")]
    found, text = advised(box("a"), few)
    assert found.machines[0].advice is Advice.UNDECIDED and "no machine to compare with" in text
    asked = f"{siblings} of the 3 siblings needed" if siblings else "no sibling"
    assert (
        asked in text and f"the same suite on {3 - siblings}{' more' if siblings else ''} of its kind" in text
    )
    assert "(NVIDIA A10G with torch 2.13.0, CUDA 12.8 and driver 570)" in text


def test_a_cpu_alone_is_undecided():
    made = [replace(each, device="cpu", device_time=None) for each in box("a")]
    _, text = advised(made, [])
    assert "(Example CPU, 8 logical CPUs with torch 2.13.0) would decide" in text


def test_without_siblings_published_rates_show_gross_faults():
    """An A10G's 70 TFLOP/s and 600 GB/s."""
    found, text = advised(box("a"), [], **A10G_CARD)
    assert found.machines[0].advice is Advice.KEEP and "2 measures within the published rates" in text
    assert "gross faults; 3 siblings" in text
    assert text.endswith(f"not compared: {GEMM.id}, drift over its soak, {STEP.id}.")
    found, text = advised(box("a", 2.0), [], **A10G_CARD)
    assert found.machines[0].advice is Advice.RETURN and {h.name for h in found.machines[0].slow} == {
        GEMM.id,
        COPY.id,
    }
    assert "published rates" in text


def test_siblings_go_before_published_rates():
    assert advised(box("a", {GEMM: 1.2}), POPULATION, **A10G_CARD)[0].machines[0].advice is Advice.RETURN
    assert advised(box("a", {GEMM: 1.2}), [], **A10G_CARD)[0].machines[0].advice is Advice.KEEP


def test_another_card_or_stack_is_no_sibling_and_neither_is_the_machine_itself():
    others = [
        *[made for name in SIBLINGS for made in box(name, run=f"run-{name}", torch="2.12.0")],
        *[made for name in SIBLINGS for made in box(name, run=f"r{name}", nvidia_driver="580.2")],
        *[
            r
            for n in SIBLINGS
            for r in box(n, run=f"x{n}", gpus=[{"name": "NVIDIA A10", "uuid": f"GPU-{n}"}])
        ],
        *[made for run in ("yesterday", "before") for made in box("a", run=run)],
    ]
    found, _ = advised(box("a"), others)
    assert found.machines[0].siblings == 0 and found.machines[0].advice is Advice.UNDECIDED


def test_a_sibling_that_was_measured_twice_counts_once():
    twice = [made for run in ("early", "later on") for name in "bcde" for made in box(name, run=run)]
    assert advised(box("a"), twice)[0].machines[0].siblings == 4


def test_boxes_of_one_run_are_siblings():
    names = ("a", "b", "c", "d", "e", "f")
    made = [r for name in names for r in box(name, 1.25 if name == "f" else 1.0)]
    found, _ = advised(made, (), names=tuple(f"box-{name}" for name in names))
    assert [m.advice for m in found.machines] == [Advice.KEEP] * 5 + [Advice.RETURN]
    assert [m.siblings for m in found.machines] == [4] * 5 + [5]  # the slow one is left out
    assert found.machines[0].left_out == ("box-f in now",) and found.exit_code == 4
    assert any("left out because they are slow: box-f in now" in note for note in found.table().notes)


def test_a_card_that_was_returned_does_not_hide_the_next():
    found, _ = advised(box("a", 1.2), [*POPULATION, *box("z", 1.3, run="run-z")])
    assert (found.machines[0].advice, found.machines[0].siblings) == (Advice.RETURN, 8)


def spoiled(records, verdict, which=lambda r: r.case is COPY):
    return [replace(r, verdict=verdict, reasons=("for a test",)) if which(r) else r for r in records]


def test_wrong_results_are_no_question_of_speed():
    found, text = advised(spoiled(box("a"), Verdict.WRONG), POPULATION)
    assert text.startswith(f"Return box-a: wrong results in {COPY.id},")
    found, text = advised(spoiled(box("a"), Verdict.WRONG, lambda r: r.case is COPY and r.repeat), [])
    assert found.machines[0].advice is Advice.RETURN  # its other repeat was right
    found, text = advised(spoiled(box("a"), Verdict.WRONG), [], **A10G_CARD)
    assert found.machines[0].advice is Advice.UNDECIDED  # the stack can be the cause
    assert f"no valid result for {COPY.id} (wrong: for a test)" in text


def test_a_case_without_a_result_leaves_the_machine_undecided_unless_unsupported():
    found, text = advised(spoiled(box("a"), Verdict.THROTTLED), POPULATION)
    assert found.machines[0].advice is Advice.UNDECIDED
    assert f"no valid result for {COPY.id} (throttled: for a test); measure it again" in text
    assert advised(spoiled(box("a"), Verdict.UNSUPPORTED), POPULATION)[0].exit_code == 0


def test_a_machine_that_is_slow_under_other_load_is_measured_again_and_not_returned():
    noisy = [replace(r, verdict=Verdict.NOISY, probes={"foreign_cores": 0.9}) for r in box("a", {COPY: 1.3})]
    found, text = advised(noisy, POPULATION)
    assert (found.machines[0].advice, found.exit_code) == (Advice.UNDECIDED, 3)
    assert f"{COPY.id} takes 1." in text and "other programs used the machine meanwhile" in text
    fast = [replace(r, verdict=Verdict.NOISY, probes={"foreign_cores": 0.9}) for r in box("a")]
    assert advised(fast, POPULATION)[0].machines[0].advice is Advice.KEEP  # fast enough all the same


def test_a_machine_whose_cpu_speed_varied_is_measured_again_and_not_returned():
    restless = [
        replace(r, verdict=Verdict.NOISY, probes={"canary_drift": 0.3}) for r in box("a", {COPY: 1.3})
    ]
    found, text = advised(restless, POPULATION)
    assert (found.machines[0].advice, found.exit_code) == (Advice.UNDECIDED, 3)
    assert f"{COPY.id} takes 1." in text
    assert "the CPU's speed varied meanwhile" in text


def test_one_repeat_alone_returns_nothing():
    few = [made for name in SIBLINGS for made in box(name, run=f"run-{name}", count=1)]
    found, text = advised(box("a", 1.3, count=1), few)
    assert found.machines[0].advice is Advice.UNDECIDED and " takes ~1." in text


def test_records_without_a_machine_kind_have_no_siblings():
    made = [replace(each, environment={}) for each in box("a")]
    _, text = advised(made, POPULATION)
    assert "do not name its card and stack" in text
