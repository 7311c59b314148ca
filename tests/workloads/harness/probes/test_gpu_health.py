import os

import pytest

from tests.workloads.harness.probes.fake_nvml import UUID, FakeNvml
from tests.workloads.harness.probes.fake_pci import pci_device
from workloads.harness.probes import gpu
from workloads.harness.probes.gpu_health import HEALTH, health_questions, xid_codes

LOG = b"""6,1,1,-;Linux version 6.8
4,2,9,-;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
4,3,9,-;NVRM: Xid (PCI:0000:3B:00.0): 31, pid=7, name=python, Ch 00000008
4,4,9,-;NVRM: Xid (PCI:0000:86:00): 48, pid=7, DBE
4,5,9,-;NVRM: Xid (PCI:0001:3b:00): 48, pid=7, a card in another PCI domain
"""


def test_every_fact_is_a_number_or_has_its_reason():
    values, missing = gpu.open_gpu(UUID, FakeNvml()).health()
    assert values.keys() | missing.keys() == set(HEALTH) and not values.keys() & missing.keys()
    assert (values["gpu_ecc_uncorrected"], values["gpu_ecc_uncorrected_total"]) == (0, 2)
    assert (values["gpu_rows_remapped"], values["gpu_remap_failed"]) == (1, 0)
    assert (values["gpu_pcie_gen"], values["gpu_pcie_gen_max"]) == (1, 4)
    assert (values["gpu_nvlinks_up"], values["gpu_nvlinks"]) == (2, 3)
    assert (values["gpu_power_limit_share"], values["gpu_persistence"], values["gpu_cards"]) == (0.75, 1, 1)
    assert (values["gpu_fabric_state"], values["gpu_fabric_status"], values["gpu_fabric_degraded"]) == (
        3,
        0,
        0,
    )
    assert values["gpu_sram_threshold_exceeded"] == 0
    assert "Not Supported" in missing["gpu_pages_retired_pending"]


def test_without_a_gpu_all_has_one_reason():
    assert gpu.NoGpu("none here").health() == ({}, dict.fromkeys(HEALTH, "none here"))


@pytest.mark.parametrize("bus", ["00000000:3B:00.0", b"00000000:3b:00.0\0"])
def test_errors_of_this_card_are_counted_and_those_of_another_are_not(tmp_path, bus):
    log = tmp_path / "kmsg"
    log.write_bytes(LOG)
    assert xid_codes(bus, log) == {79: 1, 31: 1}
    assert xid_codes("00000000:AF:00.0", log) == {}


def test_cards_that_linux_sees_are_counted_beside_those_of_the_driver(tmp_path):
    for place in range(3):
        pci_device(tmp_path, f"0000:{place:02x}:00.0")
    values, _ = gpu.Gpu(health_questions(FakeNvml(), "handle", root=tmp_path)).health()
    assert (values["gpu_cards"], values["gpu_cards_on_bus"]) == (1, 3)
    missing = gpu.Gpu(health_questions(FakeNvml(), "handle", root=tmp_path / "none")).health()[1]
    assert "pci/devices does not exist" in missing["gpu_cards_on_bus"]


def test_each_xid_code_is_counted(tmp_path):
    """A MIG slice's line as in NVIDIA GPU Memory Error Management, table 3."""
    log = tmp_path / "kmsg"
    slice = b"NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No\n"
    log.write_bytes(LOG + slice + slice)
    values, _ = gpu.Gpu(health_questions(FakeNvml(), "handle", log)).health()
    assert {name: count for name, count in values.items() if "xid" in name} == {
        "gpu_xid_errors": 4,
        "gpu_xid_79": 1,
        "gpu_xid_31": 1,
        "gpu_xid_94": 2,
    }


@pytest.mark.parametrize(
    ("fabric", "found"),
    [
        ((1, 0, 0), {"gpu_fabric_state": 1, "gpu_fabric_status": 0}),
        ((3, 3, 0b01), {"gpu_fabric_state": 3, "gpu_fabric_status": 3, "gpu_fabric_degraded": 1}),
        ((0, 0, 0), {}),
    ],
)
def test_the_fabric_state_is_read_if_there_is_a_fabric(fabric, found):
    nvml = FakeNvml()
    nvml.fabric = fabric
    values, missing = gpu.open_gpu(UUID, nvml).health()
    assert {name: value for name, value in values.items() if "fabric" in name} == found
    assert ("no NVSwitch fabric" in missing.get("gpu_fabric_state", "")) == (not found)


def test_a_log_that_cannot_be_read_is_a_reason(tmp_path):
    questions = health_questions(FakeNvml(), "handle", tmp_path / "none")
    values, missing = gpu.Gpu(questions).health()
    assert "gpu_xid_errors" not in values and "No such file" in missing["gpu_xid_errors"]


def test_a_log_without_an_end_is_read_up_to_now(tmp_path):
    log = tmp_path / "kmsg"
    os.mkfifo(log)
    writer = os.open(log, os.O_RDWR | os.O_NONBLOCK)
    os.write(writer, LOG)
    assert xid_codes("00000000:3B:00.0", log) == {79: 1, 31: 1}
    os.close(writer)
