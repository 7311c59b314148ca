from contextlib import nullcontext

import pytest

from workloads.harness.engine.phases import Phases
from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.script.observations import Observations
from workloads.harness.script.sampling import SamplingPlan, StepTimes, sample_steps, waits_until
from workloads.harness.script.timers import TimedBlock


class Walk(Observations):
    """A script with equal steps in virtual time; some have other work before them.

    `rare`: seconds of that work by the steps between two.
    """

    def now_s(self):
        return self.at_s

    def __init__(self, step_s, epoch=None, rare=()):
        super().__init__()
        self.at_s, self.step_s, self.epoch, self.rare = 0.0, step_s, epoch, dict(rare)

    @property
    def epoch_steps(self):
        return self.epoch

    @property
    def epochs_at(self):
        return range(self.epoch, len(self.ends_s) + 1, self.epoch) if self.epoch else ()

    def step(self):
        place = len(self.ends_s)
        self.at_s += self.step_s + sum(s for every, s in self.rare.items() if place and place % every == 0)
        self.ends_s.append(self.at_s)


class Cost:
    cost_s = 15e-6


def walk(observed, plan, most=10**6):
    """Drive a plan by steps; return its samples."""
    times = StepTimes()
    asked = sample_steps(plan, times, observed, Cost(), Phases(), nullcontext())
    try:
        block = next(asked)
        for _ in range(most):
            for _ in range(block):
                observed.step()
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


def test_sampling_waits_for_an_epoch_end_that_is_near():
    observed = Walk(0.02, epoch=1000)  # 20 s
    walk(observed, plan())
    assert 1000 < len(observed.ends_s) < 1010


def test_sampling_does_not_wait_for_an_epoch_end_out_of_reach():
    observed = Walk(0.02, epoch=100_000)
    walk(observed, plan())
    assert observed.at_s < 10


def test_a_job_is_predicted_from_several_epochs_and_a_third_of_the_time():
    observed = Walk(0.02, epoch=100)
    walk(observed, plan(predicts=True, cap_s=60.0))
    assert 20 <= observed.at_s < 21


def test_without_anything_between_steps_a_job_is_predicted_from_two_thirds_of_the_time():
    observed = Walk(0.02)
    walk(observed, plan(predicts=True, cap_s=60.0))
    assert 40 <= observed.at_s < 41


def test_sampling_waits_for_a_due_epoch_end_with_its_work():
    observed = Walk(0.1, epoch=700, rare={700: 20.0})
    walk(observed, plan(predicts=True))
    assert 90 <= observed.at_s < 91 and 700 < len(observed.ends_s) < 705


def test_work_that_was_seen_once_is_waited_for_if_it_can_come_again():
    observed = Walk(0.02, rare={2000: 1.0})
    walk(observed, plan(predicts=True))
    assert 4000 < len(observed.ends_s) < 4060
    observed = Walk(0.02, rare={2500: 1.0})  # twice that lies beyond the cap
    walk(observed, plan(predicts=True))
    assert 51 <= observed.at_s < 52


@pytest.mark.parametrize(("through", "epochs", "steps"), [(6000, False, 6000), (3, True, 9000)])
def test_a_number_of_steps_or_epochs_is_waited_for_in_any_case(through, epochs, steps):
    observed = Walk(0.05, epoch=3000)
    walk(observed, plan(predicts=True, through=through, through_epochs=epochs))
    assert steps <= len(observed.ends_s) < steps + 3


def test_short_steps_with_an_evaluation_each_250_are_known_in_a_few_evaluations():
    """Like nanoGPT on characters on a GPU: 8 ms a step, 1.75 s an evaluation."""
    observed = Walk(0.008, rare={250: 1.75})
    times = walk(observed, plan(predicts=True))
    assert times.sampled is not None
    seen = [
        waits_until(plan(predicts=True), times, observed, observed.at_s, on_gpu) for on_gpu in (True, False)
    ]
    assert seen == [15.0, 30.0] and observed.at_s < 32


def test_an_order_that_is_open_is_waited_for():
    observed, times = Walk(0.02, epoch=100), StepTimes()
    asked = sample_steps(
        plan(cap_s=20.0), times, observed, Cost(), Phases(), nullcontext(), lambda: len(observed.ends_s) < 700
    )
    block = next(asked)
    with pytest.raises(StopIteration):
        while True:
            for _ in range(block):
                observed.step()
            block = asked.send(TimedBlock(observed.step_s))
    assert 700 <= len(observed.ends_s) < 800


def test_waiting_takes_few_looks_and_steps_under_the_profiler_are_apart():
    observed, looks = Walk(1e-4), []
    asked = sample_steps(
        plan(predicts=True, cap_s=20.0), times := StepTimes(), observed, Cost(), Phases(), nullcontext()
    )
    block = next(asked)
    with pytest.raises(StopIteration):
        while True:
            for _ in range(block):
                observed.step()
            looks += [block] * (times.sampled is not None)
            block = asked.send(TimedBlock(observed.step_s))
    assert len(looks) < 20 / 0.04
    assert times.plain_steps == len(observed.ends_s)
