import os

import pytest

from tests.workloads.harness.probes.fake_nvml import UUID, FakeNvml
from workloads.harness.probes import gpu


def counted(nvml, wall_s, power_ns=0, thermal_ns=0, sampled=()):
    card = gpu.open_gpu(UUID, nvml)
    before = card.counters()
    nvml.violation_ns = {0: nvml.violation_ns[0] + power_ns, 1: nvml.violation_ns[1] + thermal_ns}
    after = card.counters()
    late = gpu.GpuCounters(before.at_s + wall_s, after.totals, after.missing)
    return gpu.throttling(before, late, sampled)


class TestThrottling:
    def test_counters_give_shares_by_cause(self):
        values, missing = counted(FakeNvml(), 10, power_ns=2 * 10**9, thermal_ns=10**9)
        assert values == pytest.approx(
            {"power_throttled_share": 0.2, "thermal_throttled_share": 0.1, "throttled_share": 0.3}
        )
        assert not missing

    def test_overlapping_causes_never_exceed_a_share_of_1(self):
        values, _ = counted(FakeNvml(), 1, power_ns=10**9, thermal_ns=10**9)
        assert values["throttled_share"] == 1

    def test_without_counters_throttling_is_estimated_from_samples_with_a_note(self):
        values, missing = counted(FakeNvml("nvmlDeviceGetViolationStatus"), 10, sampled=(0, 1, 0, 0))
        assert values == {"throttled_share": 0.25}
        assert "4 samples" in missing["throttled_counters"]
        assert "Not Supported" in missing["throttled_counters"]

    def test_with_neither_there_is_a_reason(self):
        values, missing = counted(FakeNvml("nvmlDeviceGetViolationStatus"), 10)
        assert not values
        assert "Not Supported" in missing["throttled_share"]

    @pytest.mark.parametrize("grown_ns", [-(10**9), 30 * 10**9])
    def test_a_counter_that_outruns_the_clock_or_goes_back_is_not_believed(self, grown_ns):
        values, missing = counted(FakeNvml(), 10, power_ns=grown_ns)
        assert "power_throttled_share" not in values
        assert "impossible" in missing["power_throttled_share"]
        assert values["throttled_share"] == 0  # by heat, which is still known

    def test_an_empty_window(self):
        assert "empty" in counted(FakeNvml(), 0)[1]["throttled_share"]


class TestSlowedBy:
    def test_each_cause_has_its_share_of_the_samples(self):
        values, missing = gpu.slowed_by((0.0, 4.0, 4.0 + 128.0, 32.0))
        assert values == {
            "gpu_slowed_by_power_cap_share": 0.5,
            "gpu_slowed_by_hardware_share": 0,
            "gpu_slowed_by_heat_share": 0.25,
            "gpu_slowed_by_hardware_heat_share": 0,
            "gpu_slowed_by_power_brake_share": 0.25,
        }
        assert not missing

    def test_without_samples_each_is_missing_with_its_reason(self):
        values, missing = gpu.slowed_by(())
        assert not values and missing.keys() == gpu.SLOWED_BY.keys()


class TestForeignLoad:
    def test_an_idle_card(self):
        nvml = FakeNvml()
        nvml.utilisation = 0
        naps = []
        values, missing = gpu.foreign_load(gpu.open_gpu(UUID, nvml), 1.0, 10, naps.append)
        assert values == {"gpu_foreign_processes": 0, "gpu_foreign_share": 0, "gpu_foreign_memory_bytes": 100}
        assert not missing
        assert sum(naps) == pytest.approx(0.3)

    @pytest.mark.parametrize("change", [{"pids": [os.getpid(), 1]}, {"used_bytes": 2 * 2**30}])
    def test_a_card_that_others_can_use_is_read_for_the_whole_window(self, change):
        nvml, naps = FakeNvml(), []
        nvml.utilisation = 0
        vars(nvml).update(change)
        values, _ = gpu.foreign_load(gpu.open_gpu(UUID, nvml), 1.0, 10, naps.append)
        assert values["gpu_foreign_share"] == 0
        assert sum(naps) == pytest.approx(1.0)

    def test_load_of_our_own_last_process_is_not_foreign(self):
        """The counter covers the last second."""
        nvml, naps = FakeNvml(), []

        def nap(seconds):
            naps.append(seconds)
            nvml.utilisation = max(90 - 15 * len(naps), 0)

        values, _ = gpu.foreign_load(gpu.open_gpu(UUID, nvml), 1.0, 10, nap)
        assert values["gpu_foreign_share"] == 0
        assert sum(naps) == pytest.approx(0.8)  # until three readings in a row are 0

    def test_a_card_that_is_busy_is_read_twice(self):
        nvml, naps = FakeNvml(), []

        def nap(seconds):
            naps.append(seconds)
            nvml.utilisation = 80 if len(naps) > 10 else 100

        values, _ = gpu.foreign_load(gpu.open_gpu(UUID, nvml), 1.0, 10, nap)
        assert values["gpu_foreign_share"] == pytest.approx(0.8)
        assert sum(naps) == pytest.approx(2.0)

    def test_a_shared_card(self):
        nvml = FakeNvml()
        nvml.pids = [os.getpid(), 1, 2]
        values, _ = gpu.foreign_load(gpu.open_gpu(UUID, nvml), sleep=lambda s: None)
        assert values["gpu_foreign_processes"] == 2
        assert values["gpu_foreign_share"] == pytest.approx(0.5)

    def test_no_gpu_takes_no_time(self):
        values, missing = gpu.foreign_load(gpu.NoGpu("none"), sleep=lambda s: pytest.fail("slept"))
        assert not values
        assert set(missing.values()) == {"none"}

    def test_a_mig_slice_has_no_utilisation(self):
        card = gpu.open_gpu(UUID, FakeNvml("nvmlDeviceGetUtilizationRates"))
        values, missing = gpu.foreign_load(card, sleep=lambda s: None)
        assert values.keys() == {"gpu_foreign_processes", "gpu_foreign_memory_bytes"}
        assert "Not Supported" in missing["gpu_foreign_share"]
