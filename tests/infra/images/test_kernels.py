import re

import pytest

from infra.images.flavours import flavours
from tasks.planning.hardware import hardware_names, load_gpus, load_hardware


def flavour_of(machine):
    named = re.findall(r"prefect\.variables\.gridbench_image_(\w+)", machine.job_variables.get("image", ""))
    return flavours()[named[0]] if named else None


def has_kernels(flavour, capability):
    """Return whether a flavour runs on a capability: the same major version, up to its minor one."""
    major, minor = map(int, capability.split("."))
    pairs = [tuple(map(int, text.split("."))) for text in flavour.capabilities]
    return any(pair[0] == major and pair[1] <= minor for pair in pairs)


WITH_IMAGE = [name for name in hardware_names() if flavour_of(load_hardware(name))]


@pytest.mark.parametrize("name", WITH_IMAGE)
def test_the_image_of_a_machine_runs_on_it(name):
    machine = load_hardware(name)
    flavour = flavour_of(machine)
    if machine.device == "cpu":
        assert flavour.name == "cpu"
    elif not machine.unsupported:
        assert has_kernels(flavour, load_gpus()[machine.gpu].capability)


@pytest.mark.parametrize(
    ("name", "capability", "runs"),
    [
        ("cuda12", "6.0", True),
        ("cuda12", "6.1", True),
        ("cuda12", "7.0", True),
        ("cuda12", "10.0", False),
        ("cuda13", "7.0", False),
        ("cuda13", "7.5", True),
        ("cuda13", "8.9", True),
        ("cuda13", "10.0", True),
        ("cuda13", "12.0", True),
    ],
)
def test_cuda_12_is_for_the_oldest_and_13_for_the_newest(name, capability, runs):
    assert has_kernels(flavours()[name], capability) is runs


@pytest.mark.parametrize("cloud", ["aws", "gke"])
def test_the_gpus_of_a_cloud_share_one_build_of_torch(cloud):
    machines = [load_hardware(name) for name in WITH_IMAGE if name.startswith(f"{cloud}-")]
    assert len({flavour_of(m).name for m in machines if m.device == "cuda" and not m.unsupported}) == 1


def test_every_flavour_has_the_same_torch():
    assert len({flavour.torch.partition("+")[0] for flavour in flavours().values()}) == 1
