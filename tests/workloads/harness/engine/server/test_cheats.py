import re
import statistics
import sys
import time

import pytest

from tests.workloads.harness.virtual import VirtualTime
from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.records.record import Record, Verdict

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a neighbour's load changes what is measured, and when processes end"
)

WRONG = {
    "hands_out_one_result": "with changed inputs, .* NaN .*: the result does not depend on the inputs",
    "hands_out_copies_of_one_result": "with changed inputs, the result is off by .*: the result does not depend on the inputs",
    "computes_only_while_it_is_checked": "with changed inputs, .*: the result does not depend on the inputs",
    "ignores_its_inputs": "with changed inputs, the result is off by .*: the result does not depend on the inputs",
    "ignores_one_input": "with changed inputs, the result is off by .*: the result does not depend on the inputs",
    "declares_no_inputs": "lists no inputs",
    "turns_wrong": r"after timing, the result is off by 0.01 \(relative, 2-norm\); fp32 allows 1e-05",
    "turns_nan": "after timing, 4096 of 4096 checked elements of the result are NaN",
    "returns_nan": "^64 of 4096 checked elements of the result are NaN or infinite",
    "returns_infinity": "^64 of 4096 checked elements of the result are NaN or infinite",
    "returns_zeros": "^the result is off by 1 ",
    "returns_half": r"^the result has shape \(32, 64\), the reference \(64, 64\)",
    "shows_nothing": "too small to check any element",
    "computes_in_tf32": r"^the result is off by 0.000\d+ \(relative, 2-norm\); fp32 allows 1e-05",
    "computes_in_bf16": r"^the result is off by 0.00\d+ \(relative, 2-norm\); fp32 allows 1e-05",
    "skips_a_row": "^the result is off by 0.1",
    "works_behind_our_back": "result",
    "spoils_its_inputs": "result",
    "gets_zeros": r"^input 0 is constant \(0\)",
    "gets_ones": r"^input 1 is constant \(1\)",
    "gets_nan": "^input 1 holds NaN or infinite values",
}


@pytest.mark.parametrize(("name", "reason"), WRONG.items(), ids=WRONG)
def test_a_wrong_answer_has_no_time(engine, name, reason):
    record = engine(name)
    assert record.verdict is Verdict.WRONG, record.reasons
    assert len(record.reasons) == 1
    assert_matches(reason, record.reasons[0])
    assert Record.from_json(record.to_json()) == record


def assert_matches(pattern, text):
    assert re.search(pattern, text), text


def test_an_honest_workload_passes_its_checks(engine):
    record = engine("honest")
    assert record.verdict in (Verdict.OK, Verdict.NOISY, Verdict.UNSTEADY, Verdict.IMPRECISE), record.reasons
    assert 0 < record.check.error < 1e-6
    assert record.check.checked_elements == 64 * 64


def test_reuse_that_no_check_sees_is_too_fast_to_be_true(engine):
    record = engine("remembers_by_version")
    assert record.verdict is Verdict.IMPOSSIBLE
    assert_matches("TFLOP/s is above this device's bound of", record.reasons[0])


@pytest.fixture
def virtual(monkeypatch):
    """Time in which only the workload's own sleeping passes, so that results are exact."""
    return VirtualTime().install(monkeypatch)


@pytest.mark.parametrize("us", [5_000_000, 10_000, 50])
def test_a_known_length_is_reported_within_two_percent(engine, virtual, us):
    record = engine("sleeps", us=us, rules=Rules())
    assert record.wall.median_s == pytest.approx(us * 1e-6, rel=0.02)
    assert record.wall.block == pytest.approx(Rules().block_min_s * 1e6 / us, rel=0.2, abs=1)
    assert record.mean_s == pytest.approx(us * 1e-6, rel=0.02)
    assert record.latency.p95_s == pytest.approx(us * 1e-6, rel=0.02)
    assert (record.wall.steady, record.wall.precision_reached) == (True, True)
    assert (record.device_time, record.transfer.h2d_pageable_s) == (None, 0.0)
    assert record.compute_s == record.end_to_end_s == record.wall.median_s
    assert record.work.units / record.compute_s == pytest.approx(3e6 / us, rel=0.02)


@pytest.mark.alone
def test_ten_real_milliseconds_are_reported_within_two_percent(engine):
    record = engine("sleeps", us=10_000)
    asleep_s = sys.modules["gridbench_workloads_times"].SLEPT_S[-record.wall.steps :]
    assert 0.01 <= record.wall.median_s == pytest.approx(statistics.median(asleep_s), rel=0.02)


def test_a_slow_start_does_not_reach_the_median(engine, virtual):
    record = engine("slow_start", rules=Rules())
    assert record.phases_s["first_call"] == pytest.approx(0.101, rel=0.01)
    assert record.wall.median_s == pytest.approx(1e-3, rel=0.01)


def test_a_step_that_never_settles_is_unsteady(engine, virtual):
    record = engine("ever_slower", rules=Rules())
    assert record.wall.steady is False
    assert record.verdict in (Verdict.UNSTEADY, Verdict.NOISY)
    assert_matches(
        r"\d+ warm-up samples did not settle|the second half of the samples is [\d.]+% slower"
        r"|the mean of the samples is still [\d.]+% below the level",
        " ".join(record.reasons),
    )


def test_a_step_without_a_median_is_imprecise(engine, virtual):
    record = engine("restless", rules=Rules())
    assert record.verdict in (Verdict.UNSTEADY, Verdict.IMPRECISE, Verdict.NOISY)
    assert_matches(
        r"the mean is known to ±\S+ after \d+ samples|samples are worth \d+ independent ones",
        " ".join(record.reasons),
    )
    assert record.phases_s["samples"] < 4  # not the cap of 10 s
    assert record.wall.precision_reached is False
    assert (record.wall.ci_high_s - record.wall.ci_low_s) / 2 > 0.01 * record.wall.median_s


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("faster_in_channels_last", "channels_last"),
        ("faster_in_contiguous", "contiguous"),
        ("alike_in_both", "contiguous"),
    ],
)
def test_the_faster_layout_is_measured(engine, virtual, name, layout):
    record = engine(name)
    assert record.layout == layout
    assert list(record.layout_trials_s) == ["contiguous", "channels_last"]
    assert record.wall.median_s == pytest.approx(1e-3, rel=0.01)


def test_an_exception_after_the_check_is_a_crash_that_keeps_the_check(engine):
    record = engine("raises")
    assert record.verdict is Verdict.CRASHED
    assert record.reasons == ("the workload raised KeyError: 'a key that\\nis not there'",)
    assert record.check.error < 1e-6
    assert record.wall is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("raises_on_build", "the workload raised ZeroDivisionError: before it was built"),
        ("returns_no_tensor", "the workload raised AttributeError: 'float' object has no attribute"),
    ],
)
def test_an_exception_of_a_workload_is_a_crash(engine, name, reason):
    record = engine(name)
    assert record.verdict is Verdict.CRASHED
    assert_matches(reason, record.reasons[0])


def test_the_collector_is_back_on_after_a_crash(engine):
    import gc

    engine("turns_wrong")
    engine("raises")
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_tf32_on_a_cpu_is_unsupported(engine):
    record = engine("honest", precision="tf32")
    assert record.verdict is Verdict.UNSUPPORTED
    assert_matches("tf32 needs an NVIDIA GPU .* on a CPU measure fp32 or bf16", record.reasons[0])


def test_phases_add_up_to_the_wall_and_hold_their_named_work(engine, virtual):
    record = engine("slow_to_build", rules=Rules())
    assert record.phases_s["build"] == pytest.approx(0.3, rel=0.01)
    assert record.phases_s["first_call"] == pytest.approx(0.001, rel=0.01)
    assert record.phases_s["samples"] == pytest.approx(record.wall.mean_s * record.wall.steps, rel=0.01)
    assert record.phases_s["warm_up"] >= sum(record.wall.warmup_s) * record.wall.block
    assert sum(record.phases_s.values()) + record.unattributed_s == pytest.approx(record.wall_s)
    assert abs(record.unattributed_s) < 0.001 * record.wall_s


def test_real_phases_add_up_to_the_wall(engine):
    started = time.perf_counter()
    record = engine("slow_to_build")
    elapsed = time.perf_counter() - started
    assert 0.3 <= record.phases_s["build"] < 0.6
    assert sum(record.phases_s.values()) + record.unattributed_s == pytest.approx(record.wall_s)
    assert -1e-6 <= record.unattributed_s < 0.02 * record.wall_s + 0.05
    assert 0.9 * elapsed - 0.1 < record.wall_s <= elapsed
