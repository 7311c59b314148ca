from dataclasses import replace

import pytest

from tests.tasks.examples.two_cards import two_cards
from tests.workloads.harness.records.timings import FULL
from workloads.harness.records.energy import energy_of
from workloads.harness.records.text import energy_text, joules

LORA = next(r for r in two_cards() if (r.hardware, r.case.workload) == ("h100", "lora_step"))


def test_a_steps_energy_is_the_windows_over_its_steps():
    found = energy_of(LORA)  # 3358 J in 6.49 s and 137 steps of 2048 tokens; the counter steps 0.1 s
    assert found.step_j == pytest.approx(24.5, rel=1e-3) and found.unit_j == pytest.approx(
        24.5 / 2048, rel=1e-3
    )
    assert found.power_w == pytest.approx(517, rel=1e-3)
    assert found.error_share == pytest.approx(0.05 / 6.5, rel=0.01)
    assert energy_text(LORA) == "24.51 J per step, 11.97 mJ per token, 517.2 W (±0.8%)"


def test_no_card_takes_more_than_its_power_limit():
    found = [energy for record in two_cards() if (energy := energy_of(record))]
    assert len(found) == 6 and all(energy.power_w < 700 * (1 + energy.error_share) for energy in found)


def test_a_host_has_no_error_of_its_own_and_old_records_no_window():
    made = replace(FULL, device="cpu", energy_j=24.0)
    found = energy_of(made)  # three samples of 4 steps
    assert (found.step_j, found.power_w, found.error_share) == (2.0, None, None)
    assert energy_of(replace(made, probes={"window_steps": 6.0, "window_end_s": 3.0})).power_w == 8.0


@pytest.mark.parametrize("changes", [{"energy_j": None}, {"wall": None}])
def test_without_a_counter_or_a_step_there_is_no_energy(changes):
    assert energy_of(replace(FULL, **changes)) is None and not energy_text(replace(FULL, **changes))


@pytest.mark.parametrize(("value", "text"), [(12_345.0, "1.234e+04 J"), (0.5, "500 mJ"), (2e-12, "2 pJ")])
def test_small_energies_have_prefixes(value, text):
    assert joules(value) == text
