"""The GPU probe against a stand-in for pynvml: no card is needed, and none is assumed."""

import json
import os
from types import SimpleNamespace

import pytest

from workloads.harness.probes import gpu

UUID = "GPU-4f6ec1ba-0000-1111-2222-333344445555"


class NotSupported(Exception):
    """As pynvml's NVMLError_NotSupported."""

    def __str__(self):
        return "Not Supported"


class FakeNvml:
    """A card whose answers are attributes; a name in `silent` raises Not Supported."""

    nvmlMemory_v2 = 0x02000028

    def __init__(self, *silent):
        self.silent = set(silent)
        self.violation_ns = {0: 10**9, 1: 0}
        self.energy_mj = 1_000_000
        self.reasons = 0x4
        self.utilisation = 50
        self.pids = [os.getpid()]
        self.handles = {UUID: "handle"}
        self.inits = 0

    def __getattribute__(self, name):
        if name.startswith("nvml") and name in object.__getattribute__(self, "silent"):
            if name == "nvmlMemory_v2":
                raise AttributeError(name)
            return self._refuse
        return object.__getattribute__(self, name)

    def _refuse(self, *_, **__):
        raise NotSupported

    def nvmlInit(self):
        self.inits += 1

    def nvmlShutdown(self):
        self.inits -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid):
        if uuid not in self.handles:
            raise NotSupported
        return self.handles[uuid]

    def nvmlDeviceGetUtilizationRates(self, _):
        return SimpleNamespace(gpu=self.utilisation, memory=3)

    def nvmlDeviceGetMemoryInfo(self, _, version=None):
        return SimpleNamespace(used=100 if version else 700, total=24 * 2**30, version=version)

    def nvmlDeviceGetPowerUsage(self, _):
        return 71_500

    def nvmlDeviceGetClockInfo(self, _, kind):
        return {1: 1410}[kind]

    def nvmlDeviceGetMaxClockInfo(self, _, kind):
        return {1: 1710}[kind]

    def nvmlDeviceGetTemperature(self, _, sensor):
        return {0: 55}[sensor]

    def nvmlDeviceGetCurrentClocksEventReasons(self, _):
        return self.reasons

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, _):
        return self.reasons

    def nvmlDeviceGetViolationStatus(self, _, policy):
        return SimpleNamespace(referenceTime=1, violationTime=self.violation_ns[policy])

    def nvmlDeviceGetTotalEnergyConsumption(self, _):
        return self.energy_mj

    def nvmlDeviceGetComputeRunningProcesses(self, _):
        return [SimpleNamespace(pid=pid) for pid in self.pids]

    def nvmlDeviceGetName(self, _):
        return "NVIDIA L4"

    def nvmlSystemGetDriverVersion(self):
        return "580.65.06"

    def nvmlDeviceGetVbiosVersion(self, _):
        return "95.04"

    def nvmlDeviceGetEnforcedPowerLimit(self, _):
        return 72_000

    def nvmlDeviceGetCurrPcieLinkGeneration(self, _):
        return 1

    def nvmlDeviceGetMaxPcieLinkGeneration(self, _):
        return 4

    def nvmlDeviceGetCurrPcieLinkWidth(self, _):
        return 16

    def nvmlDeviceGetEccMode(self, _):
        return [1, 1]

    def nvmlDeviceGetMigMode(self, _):
        return [0, 0]

    def nvmlDeviceGetComputeMode(self, _):
        return 0


QUESTIONS = sorted(
    name for name in dir(FakeNvml) if name.startswith("nvmlDevice") or name == "nvmlSystemGetDriverVersion"
)


class TestOpen:
    @pytest.mark.parametrize("uuid", [UUID, UUID.removeprefix("GPU-")])
    def test_by_uuid_with_and_without_prefix(self, uuid):
        card = gpu.open_gpu(uuid, FakeNvml())
        assert isinstance(card, gpu.NvmlGpu)
        assert card.uuid == UUID

    def test_a_mig_slice(self):
        nvml = FakeNvml()
        nvml.handles = {"MIG-1": "slice"}
        assert gpu.open_gpu("1", nvml).describe()["uuid"] == "MIG-1"

    def test_an_unknown_uuid_names_itself_and_lets_nvml_go(self):
        nvml = FakeNvml()
        card = gpu.open_gpu("GPU-other", nvml)
        assert "GPU-other" in card.reason
        assert isinstance(card, gpu.NoGpu)
        assert nvml.inits == 0

    def test_no_driver(self):
        assert "Not Supported" in gpu.open_gpu(UUID, FakeNvml("nvmlInit")).reason

    @pytest.mark.parametrize("uuid", [None, ""])
    def test_no_uuid(self, uuid):
        assert "no GPU was asked for" in gpu.open_gpu(uuid).reason

    def test_not_installed(self, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
        assert "pip install" in gpu.open_gpu(UUID).reason

    def test_the_real_library_never_raises(self):
        card = gpu.open_gpu("GPU-00000000-0000-0000-0000-000000000000")
        assert isinstance(card, gpu.NoGpu)
        assert card.reason

    def test_close_gives_nvml_back_and_twice_is_fine(self):
        nvml = FakeNvml()
        card = gpu.open_gpu(UUID, nvml)
        card.close()
        assert nvml.inits == 0
        nvml.silent.add("nvmlShutdown")
        card.close()
        gpu.NoGpu("none").close()


class TestRead:
    def test_all(self):
        values, missing = gpu.open_gpu(UUID, FakeNvml()).read()
        assert values == {
            "gpu_utilisation_share": 0.5,
            "gpu_memory_used_bytes": 100.0,
            "gpu_power_w": 71.5,
            "gpu_sm_clock_mhz": 1410.0,
            "gpu_temperature_c": 55.0,
            "gpu_throttled": 1.0,
        }
        assert not missing

    @pytest.mark.parametrize("name", QUESTIONS)
    def test_each_question_may_be_unsupported_alone(self, name):
        card = gpu.open_gpu(UUID, FakeNvml(name))
        values, missing = card.read()
        counters = card.counters()
        facts = card.describe()
        foreign, unseen = card.foreign_processes()
        assert values.keys() | missing.keys() == set(gpu.READINGS)
        assert counters.totals.keys() | counters.missing.keys() == set(gpu.TOTALS)
        assert facts.keys() == {*gpu.FACTS, "missing"}
        assert foreign or unseen
        json.dumps(facts, allow_nan=False)
        silent = [*missing.values(), *counters.missing.values(), *facts["missing"].values(), *unseen.values()]
        assert all("Not Supported" in why for why in silent)

    def test_a_library_without_a_function_is_a_reason_too(self):
        bare = SimpleNamespace(nvmlInit=lambda: None, nvmlDeviceGetHandleByUUID=lambda uuid: 1)
        values, missing = gpu.open_gpu(UUID, bare).read()
        assert not values
        assert missing.keys() == set(gpu.READINGS)

    def test_old_drivers_know_no_memory_v2_and_no_event_reasons(self):
        nvml = FakeNvml("nvmlMemory_v2", "nvmlDeviceGetCurrentClocksEventReasons")
        values, _ = gpu.open_gpu(UUID, nvml).read()
        assert values["gpu_throttled"] == 1
        assert values["gpu_memory_used_bytes"] == 700

    @pytest.mark.parametrize(
        ("bits", "slowed"), [(0, 0), (0x1, 0), (0x2, 0), (0x10, 0), (0x8, 1), (0x20, 1), (0x41, 1), (0x80, 1)]
    )
    def test_idle_and_chosen_clocks_are_no_throttling(self, bits, slowed):
        nvml = FakeNvml()
        nvml.reasons = bits
        assert gpu.open_gpu(UUID, nvml).read()[0]["gpu_throttled"] == slowed

    @pytest.mark.parametrize("answer", [float("nan"), float("inf"), None, "55"])
    def test_an_odd_answer_is_missing(self, answer):
        values, missing = gpu.Gpu({"gpu_temperature_c": lambda: answer}).read()
        assert not values
        assert repr(answer) in missing["gpu_temperature_c"]

    def test_no_gpu_gives_its_reason_everywhere(self):
        none = gpu.NoGpu("the host is the device")
        assert none.read() == ({}, dict.fromkeys(gpu.READINGS, "the host is the device"))
        assert none.counters().missing.keys() == set(gpu.TOTALS)
        assert none.describe()["name"] is None
        assert none.foreign_processes()[1] == {"gpu_foreign_processes": "the host is the device"}

    def test_describe(self):
        facts = gpu.open_gpu(UUID, FakeNvml()).describe()
        assert facts["name"] == "NVIDIA L4"
        assert facts["power_limit_w"] == 72.0
        assert (facts["pcie_gen"], facts["pcie_gen_max"], facts["pcie_width"]) == (1, 4, 16)
        assert facts["ecc"] is True
        assert facts["mig"] is False


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

    def test_overlapping_causes_don_t_exceed_one(self):
        values, _ = counted(FakeNvml(), 1, power_ns=10**9, thermal_ns=10**9)
        assert values["throttled_share"] == 1

    def test_without_counters_samples_serve_and_it_says_so(self):
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
        assert "trusted" in missing["power_throttled_share"]
        assert values["throttled_share"] == 0  # by heat, which is still known

    def test_an_empty_window(self):
        assert "empty" in counted(FakeNvml(), 0)[1]["throttled_share"]


class TestForeignLoad:
    def test_an_idle_card(self):
        nvml = FakeNvml()
        nvml.utilisation = 0
        naps = []
        values, missing = gpu.foreign_load(gpu.open_gpu(UUID, nvml), 1.0, 10, naps.append)
        assert values == {"gpu_foreign_processes": 0, "gpu_foreign_share": 0, "gpu_foreign_memory_bytes": 100}
        assert not missing
        assert sum(naps) == pytest.approx(1.0)

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
