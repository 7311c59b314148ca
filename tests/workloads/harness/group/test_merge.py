from types import SimpleNamespace

import pytest
import torch

from tests.workloads.harness.records.timings import timing
from workloads.harness.engine.device import Device
from workloads.harness.group import distributed
from workloads.harness.group.distributed import RankProcess
from workloads.harness.records.record import Verdict
from workloads.harness.records.verdict import judge

ENERGY = {"gpu_energy_j": 900.0, "gpu_energy_error_j": 20.0}


def merged(monkeypatch, *ranks, device="cuda"):
    rows = [
        ([{"uuid": f"GPU-{number}"}], energy_j, probes, missing)
        for number, (energy_j, probes, missing) in enumerate(ranks)
    ]
    monkeypatch.setattr(distributed, "gathered", lambda value: [value, *rows[1:]])
    process = RankProcess.__new__(RankProcess)
    process.device = Device(device, torch.device("cpu"), None)
    gpus, energy_j, probes, missing = rows[0]
    own = SimpleNamespace(
        environment={"gpus": gpus}, energy_j=energy_j, probes=dict(probes), missing=dict(missing)
    )
    process.merge(own)
    return own


def drift(share):
    return 900.0, {"sm_clock_drift": share}, {}


@pytest.mark.parametrize(
    ("drifts", "worst"),
    [((0.001, -0.03), -0.03), ((0.002, 0.02), 0.02), ((-0.04, 0.03), -0.04), ((0.0, 0.0), 0.0)],
)
def test_the_clock_that_moved_most_is_the_groups(monkeypatch, drifts, worst):
    own = merged(monkeypatch, *map(drift, drifts))
    assert own.probes["sm_clock_drift"] == worst
    verdicts = [verdict for verdict, _ in judge(timing(precision_reached=True), own.probes, 0.0, None)]
    assert verdicts == ([Verdict.UNSTEADY] if abs(worst) > 0.01 else [])


def test_a_clock_that_one_rank_alone_could_read_counts(monkeypatch):
    why = "2 samples of the clock are too few for two halves"
    own = merged(monkeypatch, (900.0, {}, {"sm_clock_drift": why}), drift(0.05))
    assert own.probes["sm_clock_drift"] == 0.05 and own.missing["sm_clock_drift"] == why


def test_shares_are_the_worst_and_energy_is_the_sum(monkeypatch):
    own = merged(
        monkeypatch,
        (900.0, ENERGY | {"thermal_throttled_share": 0.0, "steal_share": 0.1}, {}),
        (700.0, ENERGY | {"thermal_throttled_share": 0.3, "steal_share": 0.9, "gpu_energy_j": 700.0}, {}),
    )
    assert own.probes["gpu_energy_error_j"] == 40.0, "both counters can be off in the same direction"
    assert own.energy_j == own.probes["gpu_energy_j"] == 1600.0
    assert own.probes["thermal_throttled_share"] == 0.3
    assert own.probes["steal_share"] == 0.1, "the machine's, which all ranks read"
    assert [gpu["uuid"] for gpu in own.environment["gpus"]] == ["GPU-0", "GPU-1"]


def test_energy_that_a_rank_could_not_read_is_missing_for_its_reason(monkeypatch):
    own = merged(
        monkeypatch,
        (900.0, ENERGY, {}),
        (None, {}, {"gpu_energy_j": "NVML: Not Supported", "canary_drift": "no canary"}),
    )
    assert own.energy_j is None and not own.probes
    assert own.missing == {"gpu_energy_j": "rank 1: NVML: Not Supported"}


def test_on_a_cpu_all_have_read_the_same_machine(monkeypatch):
    own = merged(monkeypatch, (9.0, {"steal_share": 0.1}, {}), (8.0, {"steal_share": 0.2}, {}), device="cpu")
    assert (own.energy_j, own.probes) == (9.0, {"steal_share": 0.1})
