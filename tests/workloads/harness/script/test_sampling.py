"""What is asked of a script's steps, in virtual time: warm-up, samples, and the end of an epoch."""

from contextlib import nullcontext

import pytest

from workloads.harness.engine.phases import Phases
from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.script.observations import Observations
from workloads.harness.script.sampling import SamplingPlan, StepTimes, sample_steps
from workloads.harness.script.timers import TimedBlock


class Walk(Observations):
    """A script whose steps take the same time, and in virtual time."""

    def now_s(self):
        return self.at_s

    def __init__(self, step_s, epoch=None):
        super().__init__()
        self.at_s, self.step_s, self.epoch = 0.0, step_s, epoch
        self.epoch_batches = epoch


class Cost:
    cost_s = 15e-6


def walk(observed, plan, most=10**6):
    """Drive a course by steps; returns what it has taken."""
    times = StepTimes()
    asked = sample_steps(plan, times, observed, Cost(), Phases(), nullcontext())
    try:
        block = next(asked)
        for _ in range(most):
            for _ in range(block):
                observed.at_s += observed.step_s
                observed.ends_s.append(observed.at_s)
                if observed.epoch and len(observed.ends_s) % observed.epoch == 0:
                    observed.epochs_at.append(len(observed.ends_s))
            block = asked.send(TimedBlock(observed.step_s))
    except StopIteration:
        return times
    raise AssertionError("it never had enough")


def plan(**options):
    return SamplingPlan(Rules(), profiled=0, **options)


@pytest.mark.parametrize(("step_s", "block"), [(1e-4, 30), (1e-3, 4), (0.02, 1), (2.0, 1)])
def test_blocks_are_long_enough_that_their_ends_cost_nothing(step_s, block):
    times = walk(Walk(step_s), plan())
    assert times.block == pytest.approx(block, abs=1)
    assert times.warm.steady and times.sampled.precise
    assert {round(s, 12) for s in times.sampled.samples_s} == {step_s}


def test_it_waits_for_the_end_of_an_epoch_that_is_near():
    observed = Walk(0.02, epoch=1000)  # 20 s
    walk(observed, plan())
    assert 1000 < len(observed.ends_s) < 1010


def test_it_does_not_wait_for_one_that_is_out_of_reach():
    observed = Walk(0.02, epoch=100_000)
    walk(observed, plan())
    assert observed.at_s < 10


def test_a_job_is_predicted_from_several_epochs_and_half_of_the_time():
    observed = Walk(0.02, epoch=100)
    walk(observed, plan(predicts=True, cap_s=40.0))
    assert 20 <= observed.at_s < 21


def test_without_epochs_a_job_is_predicted_from_all_of_the_time():
    observed = Walk(0.02)
    walk(observed, plan(predicts=True, cap_s=40.0))
    assert 40 <= observed.at_s < 41


def test_waiting_takes_few_looks_and_steps_under_the_profiler_are_apart():
    observed, looks = Walk(1e-4), []
    asked = sample_steps(
        plan(predicts=True, cap_s=20.0), times := StepTimes(), observed, Cost(), Phases(), nullcontext()
    )
    block = next(asked)
    with pytest.raises(StopIteration):
        while True:
            for _ in range(block):
                observed.at_s += observed.step_s
                observed.ends_s.append(observed.at_s)
            looks += [block] * (times.sampled is not None)
            block = asked.send(TimedBlock(observed.step_s))
    assert len(looks) < 20 / 0.04
    assert times.plain_steps == len(observed.ends_s)
