import itertools

import pytest

from workloads.harness.engine.sampling.rules import Rules, block_size
from workloads.harness.script import timers
from workloads.harness.script.observations import Observations
from workloads.harness.script.timers import BlockTimer


class Event:
    """A device's event that needs 2 s for each block, and notes waits."""

    numbers = itertools.count()
    waited = ()

    def __init__(self):
        self.number = next(self.numbers)

    def synchronize(self):
        self.waited.append(self.number)

    def elapsed_time(self, other):
        return 1e3 * (other.number - self.number)


def test_on_a_host_a_block_is_read_when_it_ends(monkeypatch):
    monkeypatch.setattr(timers, "_event", lambda: None)
    observed = Observations()
    clock = iter([10.0, 16.0])
    monkeypatch.setattr(Observations, "now_s", lambda self: next(clock))
    timed = BlockTimer(observed)
    timed.begin()
    assert timed.end(3).wall_s == 2.0


def test_a_gpu_is_waited_for_one_block_late_so_that_it_never_runs_dry(monkeypatch):
    monkeypatch.setattr(timers, "_event", Event)
    monkeypatch.setattr(Event, "numbers", itertools.count())
    monkeypatch.setattr(Event, "waited", [])
    timed, blocks = BlockTimer(Observations()), []
    for steps in (1, 2, 2):
        timed.begin()
        blocks.append(timed.end(steps))
    assert Event.waited == [1, 1, 3]  # events 0 and 1 are around the first block, 2 and 3 around the second
    assert [block.device_s for block in blocks] == [1.0, 1.0, 0.5]
    assert blocks[0].step_s == blocks[0].device_s


def test_the_clock_of_a_script_stands_while_we_measure(monkeypatch):
    now = iter([5.0, 8.0, 9.0])
    monkeypatch.setattr("workloads.harness.script.observations.time.perf_counter", lambda: next(now))
    observed = Observations()
    observed.pause()
    assert observed.now_s() == observed.now_s() == 5.0
    observed.go_on()
    assert observed.now_s() == pytest.approx(6.0)


def test_the_ends_of_blocks_are_a_small_part_of_steps_of_a_millisecond():
    assert (
        block_size(1e-3, BlockTimer(Observations()).cost_s, Rules()) >= 5
    )  # one takes 30 µs where caches are cold
