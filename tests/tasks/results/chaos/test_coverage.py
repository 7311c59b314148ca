"""The tables of docs/measuring.md, tested on a minute of simulated streams, machines and runs."""

import pytest

from tests.tasks.results.noisy_machines import common_worlds, simulate, take_wide


@pytest.fixture(scope="module")
def made():
    return common_worlds(60)


DECIDED = {"calm": 0.95, "VM": 0.95, "VM, 8 % of processes slow": 0.55}


@pytest.mark.parametrize("repeats", [2, 3, 5])
@pytest.mark.parametrize("name", DECIDED)
def test_intervals_hold_the_truth_and_decide(made, name, repeats):
    found = simulate(made[name], repeats, take_wide, runs=150)
    assert found.covered / found.intervals >= 0.90 and found.headline_covered / found.given >= 0.88
    assert found.headline_decided / found.runs >= DECIDED[name] and found.wrong == 0
