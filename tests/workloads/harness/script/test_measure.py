from itertools import accumulate
from types import SimpleNamespace

import pytest

from workloads.harness.probes.memory import resident_bytes
from workloads.harness.records.record import Memory, Verdict
from workloads.harness.records.script import Script
from workloads.harness.script.job_prediction import job_time, pace_of
from workloads.harness.script.measure import _job, _left_bytes, _other_times
from workloads.harness.script.outcome import Ending

GIB = 2**30


def test_memory_left_at_the_peak_is_less_than_memory_left_now():
    now = _left_bytes(Memory(peak_rss_bytes=resident_bytes()))
    assert 0 <= _left_bytes(Memory(peak_rss_bytes=resident_bytes() + GIB)) <= max(now - GIB / 2, 0)


@pytest.mark.parametrize(
    ("asked", "steps", "is_measured"),
    [({}, 400, True), ({"epochs": 4}, 400, True), ({"steps": 400}, 400, True), ({"epochs": 2}, 200, False)],
)
def test_a_script_that_ends_by_itself_is_the_job_only_where_that_was_asked_for(asked, steps, is_measured):
    ends_s = list(accumulate([0.01] * 400))
    observed = SimpleNamespace(ends_s=ends_s, epochs_at=[99, 199, 299, 399])
    measured = SimpleNamespace(
        observed=observed,
        phases=SimpleNamespace(wall_s=lambda: 9.0),
        first_step_s=3.0,
        times=SimpleNamespace(warm_steps=20),
        hooks=SimpleNamespace(unused_loaders=lambda: (), unseen_saves=lambda: ()),
    )
    pace = pace_of(ends_s, observed.epochs_at, 100, 20)
    job = _job(Script(("train.py",), **asked), measured, pace, Ending(), is_refused=False)
    assert (job.steps, job.measured) == (steps, is_measured)
    assert job.seconds == (9.0 if is_measured else pytest.approx(3.0 + 1.99, rel=0.01))


@pytest.mark.parametrize(
    ("whole", "code", "steps", "seconds"),
    [(True, 0, 400, 9.0), (True, 0, 0, 9.0), (True, 1, 400, None), (False, 0, 400, None)],
)
def test_the_time_of_a_whole_run_is_known_without_its_step(whole, code, steps, seconds):
    observed = SimpleNamespace(ends_s=[0.01] * steps, epochs_at=[])
    measured = SimpleNamespace(observed=observed, phases=SimpleNamespace(wall_s=lambda: 9.0))
    script = Script(("train.py",), steps=10, whole=whole)
    job = _job(script, measured, None, Ending(code=code), is_refused=True)
    assert (job and job.seconds) == seconds
    assert job is None or (job.steps, job.measured) == (0, True)


@pytest.mark.parametrize(
    ("verdicts", "is_virtual", "on_gpu", "at_least"),
    [
        ((), False, False, 0.02),
        ((Verdict.IMPRECISE,), False, False, 0.02),
        ((Verdict.IMPRECISE, Verdict.NOISY), False, False, 0.15),
        ((Verdict.UNSTEADY,), False, True, 0.15),
        ((), True, False, 0.15),
        ((), None, False, 0.15),  # unknown
        ((), True, True, 0.02),  # a GPU is not shared
    ],
)
def test_a_job_where_others_compute_or_may_may_take_longer_or_less(verdicts, is_virtual, on_gpu, at_least):
    ends_s = list(accumulate([0.01] * 400))
    other_times = _other_times([(verdict, "seen") for verdict in verdicts], is_virtual, on_gpu)
    pace = pace_of(ends_s, [], None, 20, other_times)
    job = job_time(pace, ends_s, [], 3.0, 20, 40_000)
    assert job.high_s / job.seconds == pytest.approx(1 + at_least, abs=1e-3)
    assert job.seconds / job.low_s == pytest.approx(1 + at_least, abs=1e-3)
