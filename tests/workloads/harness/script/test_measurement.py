"""Which steps of a script a measurement counts, by the optimizers that step."""

import pytest

from workloads.harness.engine.phases import Phases
from workloads.harness.engine.readings import Readings
from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.script.course import CoursePlan
from workloads.harness.script.measurement import Measurement


class First:
    pass


class Second:
    pass


@pytest.fixture
def measurement():
    phases = Phases()
    measurement = Measurement(
        CoursePlan(Rules(), cap_s=1e9), phases, Readings("cpu", 1, phases.origin_s), whole=True
    )
    measurement.seen.compiled = True  # no model is looked for
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
def test_an_iteration_of_several_optimizers_is_one_step_from_the_first_on(measurement, order, steps):
    optimizers = {"a": First(), "b": Second()}
    for letter in order:
        measurement.seen.backward(Loss())
        measurement.optimizer_stepped(optimizers[letter], (), {})
    seen = measurement.seen
    assert len(seen.ends_s) == steps and sorted(seen.ends_s) == list(seen.ends_s)
    assert measurement.first_step_s == pytest.approx(
        measurement.wall_s() - (seen.now_s() - seen.ends_s[0]), abs=0.01
    )


class Loss:
    def detach(self):
        return self

    def clone(self):
        return self
