import pytest

from tests.workloads.harness.probes.fake_nvml import UUID, FakeNvml
from tests.workloads.harness.probes.fake_pci import pci_device
from workloads.harness.probes.gpu import open_gpu
from workloads.harness.probes.gpu_place import cards_on_bus, link_states, numa_node, visible_uuid

OTHER = "GPU-ffffffff-0000-1111-2222-333344445555"


@pytest.mark.parametrize(
    ("visible", "uuid"),
    [
        ({}, UUID),
        ({"CUDA_VISIBLE_DEVICES": "1"}, OTHER),
        ({"CUDA_VISIBLE_DEVICES": "1,0"}, OTHER),
        ({"CUDA_VISIBLE_DEVICES": OTHER}, OTHER),
        ({"CUDA_VISIBLE_DEVICES": "MIG-1,MIG-2"}, "MIG-1"),
        ({"CUDA_VISIBLE_DEVICES": "7"}, None),
        ({"CUDA_VISIBLE_DEVICES": ""}, None),
    ],
)
def test_the_first_visible_card_is_named_by_nvml(visible, uuid):
    nvml = FakeNvml()
    nvml.uuids = [UUID, OTHER]
    assert visible_uuid(visible, nvml) == uuid
    assert nvml.inits == 0


def test_without_a_driver_there_is_no_name():
    assert visible_uuid({}, FakeNvml("nvmlInit")) is None


@pytest.mark.parametrize("bus", ["00000000:3B:00.0", b"00000000:3B:00.0\0"])
@pytest.mark.parametrize(("text", "node"), [("1\n", 1), ("0\n", 0), ("-1\n", None)])
def test_the_memory_node_of_a_card(tmp_path, bus, text, node):
    folder = tmp_path / "sys/bus/pci/devices/0000:3b:00.0"
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text(text)
    assert numa_node(bus, tmp_path) == node


def test_the_links_of_a_card_that_are_up_are_counted():
    nvml = FakeNvml()
    assert open_gpu(UUID, nvml).describe()["nvlinks"] == 2
    nvml.nvlinks = [1] * 40  # a card of the future
    assert len(link_states(nvml, "handle")) == 18


def test_a_card_without_nvlinks_is_reported_with_the_reason():
    nvml = FakeNvml()
    nvml.nvlinks = []
    facts = open_gpu(UUID, nvml).describe()
    assert facts["nvlinks"] is None
    assert facts["missing"]["nvlinks"] == "NVML: Not Supported"


def test_other_cards_are_counted_by_how_far_they_are():
    nvml = FakeNvml()
    assert open_gpu(UUID, nvml).describe()["other_gpus"] == {}
    nvml.uuids = [UUID, "a", "b", "c", "d"]
    nvml.levels = {"a": 50, "b": 10, "c": 50, "d": 60}
    assert open_gpu(UUID, nvml).describe()["other_gpus"] == {"60": 1, "PIX": 1, "SYS": 2}


def test_cards_are_nvidias_gpus_that_no_other_driver_has(tmp_path):
    assert cards_on_bus(tmp_path) is None
    pci_device(tmp_path, "0000:3b:00.0")
    pci_device(tmp_path, "0000:5e:00.0", kind="0x030000", driver="")  # its driver gave it up
    pci_device(tmp_path, "0000:3b:00.1", kind="0x040300")  # its sound
    pci_device(tmp_path, "0000:c1:00.0", kind="0x068000")  # an NVSwitch
    pci_device(tmp_path, "0000:00:02.0", vendor="0x1a03", kind="0x030000", driver="ast")
    pci_device(tmp_path, "0000:86:00.0", driver="vfio-pci")  # for a virtual machine
    assert cards_on_bus(tmp_path) == ["0000:3b:00.0", "0000:5e:00.0"]
