from dataclasses import replace

import pytest

from tasks.findings.compare import compare
from tasks.findings.device.energy import Energy
from tests.tasks.examples.records import MATMUL, machine, repeats
from tests.tasks.examples.two_cards import two_cards
from workloads.harness.records.record import Work

NO_RAPL = "no CPU package under /sys/class/powercap: most VMs do not expose one"


def energy(records):
    names = dict.fromkeys(record.hardware for record in records)
    return compare(records, [machine(name) for name in names], next(iter(names))).finding(Energy)


def test_joules_of_a_case_stand_side_by_side_with_their_width():
    table = energy(two_cards()).table()
    cells = {(row[0], row[1].partition("/")[0]): row for row in table.rows}
    assert [row[0] for row in table.rows[2:4]] == ["h100", "h200"]
    *_, power_w, step_j, token_j, unit = cells["h100", "lora_step"]
    assert unit == "token" and (token_j.low, token_j.high) == pytest.approx((11.88e-3, 12.06e-3), rel=1e-3)
    assert power_w.low < 517 < power_w.high and step_j.value == pytest.approx(24.5, rel=1e-3)
    assert cells["h200", "lora_step"][3].value == pytest.approx(21.23, rel=1e-3)


def counted(joules, seconds=(1.0, 1.01, 0.99), error_j=None, hardware="cpu"):
    probes = {"window_steps": 10.0, "window_start_s": 0.0, "window_end_s": 10.0}
    probes |= {"gpu_energy_error_j": error_j} if error_j else {}
    made = repeats(
        seconds,
        MATMUL,
        hardware,
        device="cuda" if error_j else "cpu",
        energy_j=joules,
        probes=probes,
        work=Work(4, "products", 1e9, 1e6),
    )
    return made


def test_the_counters_resolution_is_the_least_width():
    (row,) = energy(counted(100.0, error_j=5.0)).table().rows  # all repeats count exactly the same
    power_w, step_j, unit_j = row[2:5]
    assert (step_j.low, step_j.value, step_j.high) == pytest.approx((9.5, 10.0, 10.5))
    assert (power_w.low, power_w.high) == pytest.approx((9.5, 10.5)) and unit_j.value == pytest.approx(2.5)


def test_repeats_that_differ_widen_it():
    made = [r for j, seed in ((100.0, 1.0), (104.0, 1.01)) for r in counted(j, (seed,), 0.1)]
    made = [replace(r, repeat=number) for number, r in enumerate(made)]
    (row,) = energy(made).table().rows
    assert row[3].low < 8.5 and row[3].high > 12


def test_a_machine_without_a_counter_is_one_sentence():
    dark = repeats([1.0, 1.01], MATMUL, "vm", missing={"cpu_energy_j": NO_RAPL})
    other = repeats([1.0, 1.01], MATMUL, "vm-2", missing={"cpu_energy_j": NO_RAPL})
    found = energy([*dark, *other, *counted(100.0)])
    assert [row[0] for row in found.table().rows] == ["cpu"]
    assert found.observations() == (f"Energy is unknown on vm and vm-2: {NO_RAPL}.",)
    assert energy(dark).table() is None and energy(counted(100.0)).observations() == ()
