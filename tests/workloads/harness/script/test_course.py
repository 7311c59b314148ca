"""What is asked of a script's steps, in virtual time: warm-up, samples, and the end of an epoch."""

from contextlib import nullcontext

import pytest

from workloads.harness.engine.phases import Phases
from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.script.course import CoursePlan, Taken, course
from workloads.harness.script.marks import TimedBlock
from workloads.harness.script.seen import Seen


class Walk(Seen):
    """A script whose steps take the same time, and in virtual time."""

    def now_s(self):
        return self.at_s

    def __init__(self, step_s, epoch=None):
        super().__init__()
        self.at_s, self.step_s, self.epoch = 0.0, step_s, epoch
        self.epoch_batches = epoch


class Cost:
    cost_s = 15e-6


def walk(seen, plan, most=10**6):
    """Drive a course by steps; returns what it has taken."""
    taken = Taken()
    asked = course(plan, taken, seen, Cost(), Phases(), nullcontext())
    try:
        block = next(asked)
        for _ in range(most):
            for _ in range(block):
                seen.at_s += seen.step_s
                seen.ends_s.append(seen.at_s)
                if seen.epoch and len(seen.ends_s) % seen.epoch == 0:
                    seen.epochs_at.append(len(seen.ends_s))
            block = asked.send(TimedBlock(seen.step_s))
    except StopIteration:
        return taken
    raise AssertionError("it never had enough")


def plan(**options):
    return CoursePlan(Rules(), profiled=0, **options)


@pytest.mark.parametrize(("step_s", "block"), [(1e-4, 30), (1e-3, 4), (0.02, 1), (2.0, 1)])
def test_blocks_are_long_enough_that_their_ends_cost_nothing(step_s, block):
    taken = walk(Walk(step_s), plan())
    assert taken.block == pytest.approx(block, abs=1)
    assert taken.warm.steady and taken.sampled.precise
    assert {round(s, 12) for s in taken.sampled.samples_s} == {step_s}


def test_it_waits_for_the_end_of_an_epoch_that_is_near():
    seen = Walk(0.02, epoch=1000)  # 20 s
    walk(seen, plan())
    assert 1000 < len(seen.ends_s) < 1010


def test_it_does_not_wait_for_one_that_is_out_of_reach():
    seen = Walk(0.02, epoch=100_000)
    walk(seen, plan())
    assert seen.at_s < 10


def test_a_job_is_predicted_from_several_epochs_and_half_of_the_time():
    seen = Walk(0.02, epoch=100)
    walk(seen, plan(predicts=True, cap_s=40.0))
    assert 20 <= seen.at_s < 21


def test_without_epochs_a_job_is_predicted_from_all_of_the_time():
    seen = Walk(0.02)
    walk(seen, plan(predicts=True, cap_s=40.0))
    assert 40 <= seen.at_s < 41


def test_waiting_takes_few_looks_and_steps_under_the_profiler_are_apart():
    seen, looks = Walk(1e-4), []
    asked = course(plan(predicts=True, cap_s=20.0), taken := Taken(), seen, Cost(), Phases(), nullcontext())
    block = next(asked)
    with pytest.raises(StopIteration):
        while True:
            for _ in range(block):
                seen.at_s += seen.step_s
                seen.ends_s.append(seen.at_s)
            looks += [block] * (taken.sampled is not None)
            block = asked.send(TimedBlock(seen.step_s))
    assert len(looks) < 20 / 0.04
    assert taken.plain_steps == len(seen.ends_s)
