from dataclasses import replace

import pytest

from tasks.plausibility.contradictions import contradictions, out_of_range
from tasks.plausibility.physics import gate
from tasks.results.repeats import key
from tests.tasks.examples.records import machine, record, timing
from workloads.harness.records.parts import Group, Rank
from workloads.harness.records.record import Check, Memory, Transfer, Work
from workloads.harness.records.timing import SustainedRate

RANKS = tuple(Rank(place, "cpu", 1.0) for place in (0, 1))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"phases_s": {"import": -2.0}}, "its phase import took -2 s: the clock ran backwards"),
        ({"inherited_s": {"import": -2.0}}, "its phase import took -2 s: the clock ran backwards"),
        ({"wall_s": -3.0}, "its process took -3 s: the clock ran backwards"),
        ({"wall_s": 1e300}, "its process took 1e+300 s, more than 31 years"),
        ({"unattributed_s": -9.0}, "its phases took 9 s more than its process: the clock ran backwards"),
        ({"wall": replace(timing(1.0), samples_s=(-1.0, 1.0, 1.0))}, "one of its samples took -1 s"),
        ({"transfer": Transfer(h2d_pinned_s=-0.1)}, "its transfer to the device took -0.1 s"),
        ({"group": Group("gloo", "weak", (Rank(1, "cpu", -1.0),))}, "a step of rank 1 took -1 s"),
        ({"group": Group("gloo", "weak", RANKS, spread=-0.5)}, "its spread between ranks is -0.5"),
        ({"group": Group("gloo", "weak", RANKS, 1.5)}, "150 % of its step is communication"),
        ({"energy_j": -1.0}, "its energy is -1"),
        ({"memory": Memory(-5)}, "its memory in peak_rss_bytes is -5"),
        ({"work": Work(-1, "images", 1.0, 1.0)}, "its work in units is -1"),
        ({"work": Work(1, "images", 1e35, 1.0)}, "it states 1e+35 flops of work in a step"),
        ({"work": Work(1e-300, "images", 1.0, 1.0)}, "it states 1e-300 units of work in a step"),
        ({"check": Check(0.5, 1e-5, 10)}, "it is ok, but its error of 0.5 is above the bound of 1e-05"),
        ({"check": Check(float("nan"), 1e-5, 10)}, "it is ok, but its error of nan is above the bound"),
        ({"wall": replace(timing(1.0), ci_low_s=2.0, ci_high_s=3.0)}, "it states a median of 1 s with an interval of 2"),
        (
            {"wall": replace(timing(1.0), sustained=SustainedRate(1.0, 2.0, 3.0, 9, 0.5))},
            "it states a sustained mean of 1 s with an interval of 2",
        ),
        ({"device": "tpu"}, "its device is 'tpu', neither cpu nor cuda"),
    ],
)  # fmt: skip
def test_each_contradiction_is_named_and_keeps_the_record_out(changes, reason):
    made = record(1.0, **changes)
    (said,) = contradictions(made)
    assert said.startswith(reason)
    assert said in gate([made], [machine()])[key(made)]


def test_a_sound_record_contradicts_nothing():
    work = Work(1, "images", 0.0, 0.0)
    assert contradictions(record(1.0, unattributed_s=-1e-4, check=Check(1e-7, 1e-5, 9), work=work)) == []
    assert contradictions(record(1.0, group=Group("gloo", "weak", RANKS, -0.1, 0.0), memory=Memory(1))) == []


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf"), 5e-324, 1e-12, 1e10])
def test_values_that_no_clock_gives_are_out_of_range(seconds):
    assert out_of_range(seconds)


@pytest.mark.parametrize("seconds", [1e-9, 1.0, 86400.0])
def test_ordinary_times_of_steps_are_in_range(seconds):
    assert not out_of_range(seconds)
