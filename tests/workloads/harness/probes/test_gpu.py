import json
from types import SimpleNamespace

import pytest

from tests.workloads.harness.probes.fake_nvml import UUID, FakeNvml
from workloads.harness.probes import gpu

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

    def test_a_missing_driver_is_reported(self):
        assert "Not Supported" in gpu.open_gpu(UUID, FakeNvml("nvmlInit")).reason

    @pytest.mark.parametrize("uuid", [None, ""])
    def test_without_a_uuid_no_gpu_is_opened(self, uuid):
        assert "no GPU was requested" in gpu.open_gpu(uuid).reason

    def test_a_missing_pynvml_is_reported_with_advice(self, monkeypatch):
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
    def test_a_reading_has_all_values_of_a_gpu(self):
        values, missing = gpu.open_gpu(UUID, FakeNvml()).read()
        assert values == {
            "gpu_utilisation_share": 0.5,
            "gpu_memory_used_bytes": 100.0,
            "gpu_power_w": 71.5,
            "gpu_sm_clock_mhz": 1410.0,
            "gpu_temperature_c": 55.0,
            "gpu_throttled": 1.0,
            "gpu_event_reasons": 4.0,
        }
        assert not missing

    @pytest.mark.parametrize("name", QUESTIONS)
    def test_each_question_can_be_unsupported_alone(self, name):
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

    def test_a_description_has_all_facts_of_a_gpu(self):
        facts = gpu.open_gpu(UUID, FakeNvml()).describe()
        assert facts["name"] == "NVIDIA L4"
        assert facts["power_limit_w"] == 72.0
        assert (facts["pcie_gen"], facts["pcie_gen_max"], facts["pcie_width"]) == (1, 4, 16)
        assert facts["ecc"] is True
        assert facts["mig"] is False
