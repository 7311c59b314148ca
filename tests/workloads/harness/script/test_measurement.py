import pytest
import torch

from tests.workloads.harness.virtual import VirtualTime
from workloads.harness.engine.phases import Phases
from workloads.harness.engine.readings import Readings
from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.script.measurement import EnoughError, Measurement
from workloads.harness.script.observations import LOSSES
from workloads.harness.script.sampling import SamplingPlan
from workloads.harness.script.timers import gpus_in_use


class First:
    pass


class Second:
    pass


@pytest.fixture
def time(monkeypatch):
    """Time that passes only by the test."""
    virtual = VirtualTime().install(monkeypatch)
    for module in ("observations", "measurement"):
        monkeypatch.setattr(f"workloads.harness.script.{module}.time", virtual)
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
        measurement.observed.backward((Loss(),), Loss())
        measurement.optimizer_stepped(optimizers[letter], (), {})
    observed = measurement.observed
    assert len(observed.ends_s) == steps and sorted(observed.ends_s) == list(observed.ends_s)
    since_first_s = observed.now_s() - observed.ends_s[0]
    assert measurement.first_step_s == pytest.approx(measurement.phases.wall_s() - since_first_s, abs=1e-3)


@pytest.mark.parametrize(
    "order", ["a" * 150, "a" * 90 + "ab" * 20, "a" * 90 + "b" * 40, "a" * 90 + "aab" * 9 + "a" * 90]
)
@pytest.mark.parametrize("looked_at", [200, 5])  # steps between two looks at the step so far
def test_the_short_path_counts_as_the_long_path(time, monkeypatch, order, looked_at):
    notes, paths = [], []
    for losses in (LOSSES, 10**9):
        monkeypatch.setattr("workloads.harness.script.measurement.LOSSES", losses)
        phases, optimizers = Phases(), {"a": First(), "b": Second()}
        measurement = Measurement(
            SamplingPlan(Rules(), cap_s=1e9), phases, Readings("cpu", 1, phases.origin_s), whole=True
        )
        measurement.observed.compiled, began_s, seen = True, time.perf_counter(), []
        for place, letter in enumerate(order):
            time.sleep(0.01)
            measurement.observed.backward((Loss(),), Loss())
            measurement.optimizer_stepped(optimizers[letter], (), {})
            paths.append(measurement._only is not None)
            if place % looked_at == 0:
                seen.append(measurement.step_model())
        observed, turns = measurement.observed, measurement.turns
        ends_s = [round(end_s - began_s, 3) for end_s in observed.ends_s]
        notes.append(
            (seen, measurement.step_model(), ends_s, list(observed.backwards_at), turns.order, turns.turns)
        )
    assert notes[0] == notes[1]
    assert any(paths[: len(order)]) and not any(paths[len(order) :])


def test_the_gpu_that_a_script_uses_is_known_after_its_first_step(measurement, monkeypatch):
    asked = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)  # no events are recorded
    monkeypatch.setattr(Readings, "opened", lambda readings, index: asked.append(index))
    optimizer = First()
    for _ in range(3):
        measurement.observed.backward((Loss(),), Loss())
        measurement.optimizer_stepped(optimizer, (), {})
    assert asked == [1]


@pytest.mark.parametrize(("peaks", "count"), [([5, 0, 7], 2), ([0, 3], 1)])
def test_the_gpus_of_a_process_are_those_that_have_held_tensors(monkeypatch, peaks, count):
    assert gpus_in_use() == 0
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(peaks))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", peaks.__getitem__)
    assert gpus_in_use() == count


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
    measurement.leave = lambda: None  # it would end this process
    error = RuntimeError("a reading failed")
    if whole:
        measurement.failed(error)
    else:
        with pytest.raises(EnoughError):
            measurement.failed(error)
    assert measurement.trouble is error and len(ended) == (not whole)
