"""The stop rules under every noise. The table of docs/measuring.md has more streams of each:

python -m tests.benchmarks.simulated.samples --write
"""

import pytest

from tests.workloads.harness.engine import streams as s
from workloads.harness.engine.sampling.rules import Rules

MANY = 200
NOISES = {
    "quiet": s.quiet,
    "even noise of 2.7 %": s.gauss,
    "cloud": s.cloud,
    "twice": s.twice,
    "heavy tails": s.heavy,
    "ramp over 15 steps": s.ramp(tau_steps=15),
    "ramp, 1 s": s.ramp(tau_s=1.0),
    "ramp, 3 s": s.ramp(tau_s=3.0),
    "ramp, 10 s": s.ramp(tau_s=10.0),
    "drift of 1 % a second": s.drift,
    "neighbour on and off": s.neighbour,
    "thermal cycle": s.thermal,
    "AR(1)": s.Correlated,
    "AR(1) of .99": s.Slow,
    "bimodal": s.bimodal,
}
SETTLED = ("ramp", "drift")  # their true value is their end
ALIKE = ["quiet", "even noise of 2.7 %", "heavy tails", "bimodal"]


def measured(name, rules, step_s=10e-3, count=MANY):
    noise = NOISES[name]
    true = 1.0 if name.startswith(SETTLED) else s.mean_of(noise)
    return s.row(s.streams(noise, step_s, count, rules), true)


@pytest.mark.parametrize("name", NOISES)
def test_ok_verdicts_under_noise_are_right(name):
    for rules in (Rules(), Rules().quick()):
        found = measured(name, rules)
        assert found.ok * found.wrong <= 0.05, found


@pytest.mark.parametrize("name", ALIKE)
def test_intervals_hold_the_mean(name):
    for rules in (Rules(), Rules().quick()):
        assert measured(name, rules).covered >= 0.9


@pytest.mark.parametrize("name", [*ALIKE, "ramp, 1 s"])
def test_measurable_noise_gets_the_verdict_ok(name):
    for rules in (Rules(), Rules().quick()):
        assert measured(name, rules).ok >= 0.9


def test_a_drift_is_never_steady():
    for rules in (Rules(), Rules().quick()):
        assert measured("drift of 1 % a second", rules).unsteady >= 0.98


@pytest.mark.parametrize("step_s", [0.04, 0.1, 0.4, 2.0])
def test_long_steps_in_cloud_noise_are_wide_and_not_unsteady(step_s):
    found = measured("cloud", Rules(), step_s, 100)
    assert found.ok <= 0.05 and found.unsteady <= 0.1
