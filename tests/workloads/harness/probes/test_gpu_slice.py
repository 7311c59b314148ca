"""MIG slices against a fake pynvml; profiles as in NVIDIA's MIG user guide for an A100-40GB."""

import pytest

from tests.workloads.harness.probes.fake_nvml import UUID, FakeNvml
from workloads.harness.probes.gpu import open_gpu
from workloads.harness.probes.gpu_place import visible_uuid

SMALL, PART = (1, 1, 14, 4864), (3, 1, 14, 20096)


@pytest.fixture
def nvml():
    made = FakeNvml()
    made.slices = [SMALL, PART]
    made.handles = {UUID: "handle", "MIG-a": SMALL, "MIG-b": PART}
    made.uuids = ["handle"]
    return made


@pytest.mark.parametrize(
    ("uuid", "profile", "memory_share"),
    [("MIG-a", "1g.5gb", 4864 / 24576), ("MIG-b", "1c.3g.20gb", 20096 / 24576)],
)
def test_a_slice_is_named_with_its_share_of_the_card(nvml, uuid, profile, memory_share):
    about = open_gpu(uuid, nvml).describe()
    assert about["mig"] is True and about["mig_devices"] == ["1g.5gb", "1c.3g.20gb"]
    assert about["mig_slice"]["profile"] == profile and about["mig_slice"]["of"] == UUID
    assert about["mig_slice"]["compute_share"] == 1 / 7
    assert about["mig_slice"]["memory_share"] == pytest.approx(memory_share)


def test_a_slice_has_the_faults_of_its_card(nvml):
    asked = []
    nvml.nvmlDeviceGetRemappedRows = lambda handle: asked.append(handle) or (0, 0, 0, 1)
    assert open_gpu("MIG-a", nvml).health()[0]["gpu_remap_failed"] == 1
    assert set(asked) == {"handle"}


def test_a_whole_card_is_no_slice_and_lists_those_that_it_is_cut_into(nvml):
    about = open_gpu(UUID, nvml).describe()
    assert about["mig_slice"] is None and about["mig"] is True and len(about["mig_devices"]) == 2
    nvml.slices = []
    about = open_gpu(UUID, nvml).describe()
    assert (about["mig"], about["mig_slice"], about["mig_devices"]) == (False, None, [])
    assert "mig_slice" not in about["missing"]


def test_a_driver_without_mig_has_whole_cards():
    silent = ("nvmlDeviceIsMigDeviceHandle", "nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount")
    about = open_gpu(UUID, FakeNvml(*silent)).describe()
    assert about["mig_slice"] is None and about["mig"] is None
    assert about["missing"].keys() >= {"mig", "mig_devices"}


def test_of_a_card_in_mig_mode_cuda_sees_the_first_slice(nvml):
    assert visible_uuid({}, nvml) == "MIG-a"
    assert visible_uuid({"CUDA_VISIBLE_DEVICES": "MIG-b"}, nvml) == "MIG-b"
