"""The steps that a measurement counts, by the script's optimizers."""

import pytest
import torch

from tests.workloads.harness.virtual import VirtualTime
from workloads.harness.engine.phases import Phases
from workloads.harness.engine.readings import Readings
from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.script.measurement import EnoughError, Measurement, OptimizerTurns, period
from workloads.harness.script.sampling import SamplingPlan
from workloads.harness.script.timers import gpus_in_use


class First:
    pass


class Second:
    pass


@pytest.fixture
def time(monkeypatch):
    """Time that passes only while a test says so."""
    virtual = VirtualTime().install(monkeypatch)
    monkeypatch.setattr("workloads.harness.script.observations.time", virtual)
    return virtual


@pytest.fixture
def measurement(time):
    phases = Phases()
    measurement = Measurement(
        SamplingPlan(Rules(), cap_s=1e9), phases, Readings("cpu", 1, phases.origin_s), whole=True
    )
    measurement.observed.compiled = True  # no model is looked for
    return measurement


@pytest.mark.parametrize(
    ("order", "steps"),
    [
        ("a" * 40, 40),
        ("ab" * 20, 20),  # as a GAN's
        ("aaab" * 10, 10),
        ("ab" * 20 + "a", 20),
        ("a" * 10 + "b" * 40, 50),  # two phases of a training
    ],
)
def test_an_iteration_of_several_optimizers_is_one_step_from_the_first_on(measurement, time, order, steps):
    optimizers = {"a": First(), "b": Second()}
    for letter in order:
        time.sleep(0.01)
        measurement.observed.backward(Loss())
        measurement.optimizer_stepped(optimizers[letter], (), {})
    observed = measurement.observed
    assert len(observed.ends_s) == steps and sorted(observed.ends_s) == list(observed.ends_s)
    since_first_s = observed.now_s() - observed.ends_s[0]
    assert measurement.first_step_s == pytest.approx(measurement.phases.wall_s() - since_first_s, abs=1e-3)


def test_the_gpu_that_a_script_uses_is_known_after_its_first_step(measurement, monkeypatch):
    asked = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)  # no events are recorded
    monkeypatch.setattr(Readings, "opened", lambda readings, index: asked.append(index))
    optimizer = First()
    for _ in range(3):
        measurement.observed.backward(Loss())
        measurement.optimizer_stepped(optimizer, (), {})
    assert asked == [1]


@pytest.mark.parametrize(("peaks", "count"), [([5, 0, 7], 2), ([0, 3], 1)])
def test_the_gpus_of_a_process_are_those_that_have_held_tensors(monkeypatch, peaks, count):
    assert gpus_in_use() == 0
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(peaks))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", peaks.__getitem__)
    assert gpus_in_use() == count


def ends(order):
    """Places of the steps that end an iteration; letters name optimizers."""
    optimizers = {letter: First() if letter == "a" else Second() for letter in set(order)}
    turns = OptimizerTurns()
    return [place for place, letter in enumerate(order) if turns.stepped(optimizers[letter])[0]], turns


@pytest.mark.parametrize(
    ("order", "iterations"),
    [
        ("a" * 20, list(range(20))),
        ("ab" * 10, [0, *range(1, 20, 2)]),  # nothing shows after the first step that another one comes
        ("aaab" * 5, [0, 1, 2, *range(3, 20, 4)]),
        ("a" * 40 + "b" * 10, list(range(50))),  # another phase of the training
    ],
)
def test_an_iteration_is_a_period_of_the_order(order, iterations):
    found, turns = ends(order)
    assert found == iterations
    assert list(turns.names) == (["First", "Second"] if "b" in order else ["First"])


def test_a_new_length_is_told_so_that_measuring_begins_anew():
    a, b, turns = First(), Second(), OptimizerTurns()
    assert turns.stepped(a) == (True, False)
    assert turns.stepped(b) == (True, True)
    assert [turns.stepped(x) for x in (a, b)] == [(False, False), (True, False)]


def test_an_order_without_a_period_counts_every_step():
    assert period([0, 1, 1, 0, 1, 0, 0, 0, 1, 1, 1, 0, 1, 0, 0, 1, 1, 0, 1, 1, 0]) == 1


class Loss:
    def detach(self):
        return self

    def clone(self):
        return self


@pytest.mark.parametrize("whole", [True, False])
def test_an_error_of_the_measurement_stops_a_measured_script_only(time, whole):
    phases, ended = Phases(), []
    measurement = Measurement(
        SamplingPlan(Rules(), cap_s=1e9), phases, Readings("cpu", 1, phases.origin_s), whole=whole
    )
    measurement.finish = lambda ending: ended.append(ending) or 0
    measurement._end_firmly = lambda: None  # it would end this process
    error = RuntimeError("a reading failed")
    if whole:
        measurement.failed(error)
    else:
        with pytest.raises(EnoughError):
            measurement.failed(error)
    assert measurement.trouble is error and len(ended) == (not whole)
