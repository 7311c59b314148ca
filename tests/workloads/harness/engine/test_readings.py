from types import SimpleNamespace

import pytest
import torch

from tests.workloads.harness.probes.fake_nvml import UUID, FakeNvml
from workloads.harness.engine import readings
from workloads.harness.engine.phases import Phases
from workloads.harness.probes import gpu

OTHER = "GPU-ffffffff-0000-1111-2222-333344445555"


class FakeMemory:
    def __init__(self, monkeypatch):
        self.now = self.peak = 0
        for name, answer in {
            "is_initialized": lambda: True,
            "max_memory_allocated": lambda: self.peak,
            "max_memory_reserved": lambda: 2 * self.peak,
            "memory_reserved": lambda: 2 * self.now,
            "memory_stats": lambda: {},
            "reset_peak_memory_stats": self.reset,
        }.items():
            monkeypatch.setattr(torch.cuda, name, answer)

    def take(self, size):
        self.peak = max(self.peak, self.now + size)

    def reset(self):
        self.peak = self.now


@pytest.fixture
def card(monkeypatch):
    """One GPU that must not be queried before it is opened."""
    nvml = FakeNvml()
    monkeypatch.setattr(readings, "AskedGpu", lambda uuid=UUID, after=None: gpu.open_gpu(uuid, nvml))
    monkeypatch.setattr(gpu, "foreign_load", lambda card: ({"gpu_foreign_share": 0.5}, {}))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: pytest.fail("this opens CUDA in another phase")
    )
    return nvml


def properties(uuid):
    return lambda device: SimpleNamespace(
        uuid=uuid.removeprefix("GPU-"), major=9, minor=0, multi_processor_count=132
    )


def test_cuda_is_not_opened_by_the_probes(card, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: pytest.fail("this loads cuDNN"))
    made = readings.Readings("cuda", 1, 0.0)
    assert made.environment["gpus"][0]["uuid"] == UUID
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties(UUID))
    made.opened()
    assert made.probes["gpu_foreign_share"] == 0.5


def test_cards_that_nvml_counts_in_another_order_are_told_apart(card, monkeypatch):
    card.handles[OTHER] = "other"
    made = readings.Readings("cuda", 1, 0.0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties(OTHER))
    made.opened()
    assert [facts["uuid"] for facts in made.environment["gpus"]] == [OTHER]
    assert made.gpu.uuid == OTHER
    assert made.monitor._gpu is made.gpu
    assert "gpu_foreign_share" not in made.probes
    assert "NVML and CUDA number the GPUs differently" in made.missing["gpu_foreign_share"]


@pytest.mark.parametrize("named_by", ["slice", "card"])  # which of the two CUDA returns is not documented
def test_a_slice_is_read_as_such_whichever_uuid_cuda_names(card, monkeypatch, named_by):
    slice = (1, 1, 14, 4864)
    card.slices, card.handles = [slice], {UUID: "handle", "MIG-a": slice}
    monkeypatch.setattr(readings, "AskedGpu", lambda uuid="MIG-a", after=None: gpu.open_gpu(uuid, card))
    made = readings.Readings("cuda", 1, 0.0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties("a" if named_by == "slice" else UUID))
    made.opened()
    assert made.gpu.uuid == "MIG-a" and made.probes["gpu_foreign_share"] == 0.5
    assert made.environment["gpus"][0]["mig_slice"]["profile"] == "1g.5gb"


def test_a_slice_that_nvml_does_not_know_is_named_by_cuda(card, monkeypatch):
    made = readings.Readings("cuda", 1, 0.0)
    opened = SimpleNamespace(
        uuid=UUID[4:],
        name="NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        multi_processor_count=14,
        total_memory=5 * 10**9,
    )
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: opened)
    made.opened()
    assert made.environment["gpus"][0]["mig_slice"] == {
        "profile": "1g.5gb",
        "multiprocessors": 14,
        "memory_bytes": 5 * 10**9,
    }


def test_a_script_on_another_gpu_than_the_first_is_read_on_its_own(card, monkeypatch):
    card.handles[OTHER] = "other"
    made = readings.Readings("cuda", 1, 0.0)
    uuids = [UUID, OTHER]
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda index: SimpleNamespace(uuid=uuids[index][4:])
    )
    made.opened(1)
    assert made.gpu.uuid == OTHER and [facts["uuid"] for facts in made.environment["gpus"]] == [OTHER]
    assert made.missing["gpu_foreign_share"].startswith("CUDA device 1 computed")


@pytest.mark.parametrize(("gpus", "joules"), [(1, 9.0), (2, None)])
def test_work_of_several_gpus_has_no_energy_reading(card, gpus, joules):
    made = readings.Readings("cuda", 1, 0.0)
    made.energy_j = made.probes["gpu_energy_j"] = 9.0
    made.shared_by(gpus)
    assert made.energy_j == made.probes.get("gpu_energy_j") == joules
    assert made.missing.get("gpu_energy_j") == (
        None if joules else "2 GPUs computed, but the energy of only one was read"
    )


def test_the_peak_is_the_steps_and_the_processes_beside_it(card, monkeypatch):
    memory = FakeMemory(monkeypatch)
    made = readings.Readings("cuda", 1, 0.0)
    memory.take(10**9)  # the search for an algorithm
    with made.window(Phases()):
        memory.take(10**6)
    peaks = made.memory()
    assert (peaks.device_allocated_bytes, peaks.device_reserved_bytes) == (10**6, 2 * 10**6)
    assert (peaks.process_allocated_bytes, peaks.process_reserved_bytes) == (10**9, 2 * 10**9)
    memory.take(10**10)  # the checks
    assert made.memory().process_allocated_bytes == 10**10
    assert made.memory().device_allocated_bytes == 10**6


def test_the_processs_own_total_by_the_driver_stands_next_to_the_allocators(card, monkeypatch):
    memory = FakeMemory(monkeypatch)
    made = readings.Readings("cuda", 1, 0.0)
    memory.take(10**9)
    memory.now = 10**6  # the allocator has given the rest back since
    card.own_bytes = 2 * 10**6 + 8 * 10**8  # a context of 0.8 GB
    assert made.memory().process_total_bytes == 2 * 10**9 + 8 * 10**8
    assert "gpu_own_memory_bytes" not in made.missing


def test_the_total_is_read_before_the_driver_is_let_go(card, monkeypatch):
    FakeMemory(monkeypatch).take(10**6)
    made = readings.Readings("cuda", 1, 0.0)
    monkeypatch.setattr(made.gpu, "close", made.gpu.questions.clear)
    assert made.parts()["memory"].process_total_bytes == 10**9 + 2 * 10**6


@pytest.mark.parametrize(
    ("own_bytes", "pids", "reason"),
    [
        (None, [1], "returned None"),  # as on Windows, and for a process that has just begun
        (10**6, [1], "torch has reserved"),
        (10**10, [1, 2], "lists 2 processes"),
    ],
)
def test_a_total_that_the_driver_does_not_know_is_missing(card, monkeypatch, own_bytes, pids, reason):
    memory = FakeMemory(monkeypatch)
    made = readings.Readings("cuda", 1, 0.0)
    memory.now = memory.peak = 10**9
    card.own_bytes, card.pids = own_bytes, pids
    assert made.memory().process_total_bytes is None
    assert reason in made.missing["gpu_own_memory_bytes"]


def test_without_samples_the_peak_is_the_processs(card, monkeypatch):
    memory = FakeMemory(monkeypatch)
    memory.take(10**9)
    peaks = readings.Readings("cuda", 1, 0.0).memory()
    assert peaks.device_allocated_bytes == peaks.process_allocated_bytes == 10**9


def test_the_bound_follows_from_the_cards_stated_figures(card, monkeypatch):
    made = readings.Readings("cuda", 1, 0.0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties(UUID))
    assert made.peak_flops("bf16") == 132 * 4096 * 1710e6
    assert made.peak_flops("fp32") == 132 * 256 * 1710e6


def test_a_card_that_power_holds_down_is_at_its_limit(card, monkeypatch):
    FakeMemory(monkeypatch)
    made = readings.Readings("cuda", 1, 0.0)
    shares = iter([0.4, 0.9])
    monkeypatch.setattr(readings.gpu, "throttling", lambda *_: ({"power_throttled_share": next(shares)}, {}))
    is_at_limit = made.limit_watch()
    assert [is_at_limit(), is_at_limit()] == [False, True]


def test_the_readings_of_the_own_gpu_are_of_the_window(card, monkeypatch):
    FakeMemory(monkeypatch)
    made = readings.Readings("cuda", 1, 0.0)
    rows = [{"gpu_power_w": 100.0, "gpu_temperature_c": 90.0, "gpu_sm_clock_mhz": 300.0}]
    rows += [
        {"gpu_power_w": w, "gpu_temperature_c": 50.0 + w, "gpu_sm_clock_mhz": 1500.0} for w in (6.0, 8.0)
    ]
    times = iter([0.0, 5.0, 6.0])
    rows = [{"t_s": next(times), **row} for row in rows]
    phases = Phases()
    with made.window(phases):
        made.probes["window_start_s"] = 4.0
        made.monitor._rows = rows
        monkeypatch.setattr(readings.time, "perf_counter", lambda: phases.origin_s + 7.0)
    own = made.of_own_gpu()
    assert (own["gpu_power_w"], own["gpu_temperature_c"], own["gpu_sm_clock_mhz"]) == (7.0, 58.0, 1500.0)
    assert own["gpu_remap_failed"] == 0 and "window_start_s" not in own
    assert readings.Readings("cpu", 1, 0.0).of_own_gpu() == {}


@pytest.mark.parametrize(("device", "per_s"), [("cuda", 10), ("cpu", 4)])
def test_a_card_is_watched_ten_times_a_second_and_a_cpu_four_times(card, device, per_s):
    """Ten would cost 0.45 % of a core on a CPU, and CPU seconds are counted in hundredths."""
    assert readings.Readings(device, 1, 0.0).monitor._interval_s == 1 / per_s


def test_a_script_that_computed_on_the_cpu_is_not_judged_by_an_idle_gpu(card, monkeypatch):
    FakeMemory(monkeypatch)
    made = readings.Readings("cuda", 1, 0.0)
    made.probes |= {
        "gpu_foreign_share": 0.9,
        "sm_clock_drift": -0.5,
        "thermal_throttled_share": 1.0,
        "cpu_energy_j": 7.0,
    }
    made.computed_on("cpu")
    assert (made.device, made.energy_j) == ("cpu", 7.0)
    assert not {"gpu_foreign_share", "sm_clock_drift", "thermal_throttled_share"} & made.probes.keys()
    assert "on the CPU" in made.missing["gpu_foreign_share"]
