import os
import re
from types import SimpleNamespace

import pytest

from tests.workloads.harness.probes.fake_pci import pci_device
from workloads.__main__ import main
from workloads.harness.checks import preflight


def a_torch(cuda="12.6", architectures=("sm_75", "sm_80", "sm_86", "sm_90"), version="2.13.0+cu126"):
    about = SimpleNamespace(get_arch_list=lambda: list(architectures))
    return SimpleNamespace(__version__=version, version=SimpleNamespace(cuda=cuda), cuda=about)


class Nvml:
    def __init__(self, driver="580.95.05", gpus=(("Tesla T4", (7, 5)),)):
        self.driver, self.gpus = driver, gpus

    def nvmlInit(self):
        if self.driver is None:
            raise RuntimeError("NVML Shared Library Not Found")
        self.open = True

    def nvmlShutdown(self):
        self.open = False

    def nvmlSystemGetDriverVersion(self):
        return self.driver

    def nvmlDeviceGetCount(self):
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetCudaComputeCapability(self, handle):
        return self.gpus[handle][1]

    def nvmlDeviceGetName(self, handle):
        return self.gpus[handle][0]


L4, A100, V100, B200 = ("NVIDIA L4", (8, 9)), ("A100", (8, 0)), ("Tesla V100", (7, 0)), ("B200", (10, 0))


@pytest.mark.parametrize(
    ("torch", "nvml", "wanted", "said"),
    [
        (a_torch(cuda=None, version="2.13.0+cpu"), Nvml(), 1, r"2\.13\.0\+cpu is built without CUDA"),
        (a_torch(), Nvml(driver=None), 1, r"no GPU is visible.*NVML Shared Library Not Found"),
        (a_torch(), Nvml(gpus=()), 1, "no GPU is visible"),
        (
            a_torch(),
            Nvml(driver="470.82.01"),
            1,
            r"470.82.01 is too old for CUDA 12.6: update it to 525.60.13 or newer$",
        ),
        (a_torch(cuda="13.0"), Nvml(driver="550.54.15"), 1, "too old for CUDA 13.0.*580.65.06.*CUDA 12"),
        (a_torch(), Nvml(gpus=(A100,) * 4), 8, "4 of 8 GPUs are visible"),
        (a_torch(), Nvml(gpus=(V100,)), 1, r"no kernels for Tesla V100 \(sm_70\), only for sm_75"),
        (a_torch(), Nvml(gpus=(B200,)), 1, r"no kernels for B200 \(sm_100\)"),
    ],
)
def test_a_hindrance_is_reported_once(torch, nvml, wanted, said):
    found = preflight.gpus(wanted, nvml, torch)
    assert [well for well, _ in found] == [False]
    assert re.search(said, found[0][1])


@pytest.mark.parametrize(
    ("torch", "gpus"),
    [
        (a_torch(), (L4,)),  # runs code built for 8.0 and 8.6
        (a_torch(), (A100,) * 8),
        (a_torch(architectures=("sm_80", "compute_90")), (B200,)),  # by PTX
        (a_torch(cuda="99.1"), (L4,)),  # a CUDA version missing in this table hinders nothing
    ],
)
def test_usable_gpus_are_reported(torch, gpus):
    found = preflight.gpus(len(gpus), Nvml(gpus=gpus), torch)
    assert [well for well, _ in found] == [True]
    assert f"visible GPUs: {len(gpus)}" in found[0][1]


def test_names_are_those_of_the_driver_which_is_let_go():
    nvml = Nvml(gpus=(L4, V100))
    assert preflight.names_here(nvml) == ["NVIDIA L4", "Tesla V100"] and not nvml.open
    assert preflight.names_here(Nvml(driver=None)) == []


@pytest.mark.parametrize("end", ["time.sleep(60)", "os.kill(os.getpid(), 11)"])
def test_a_driver_that_hangs_or_kills_its_caller_is_a_hindrance(tmp_path, monkeypatch, end):
    (tmp_path / "pynvml.py").write_text(f"import os, time\ndef nvmlInit(): {end}\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(preflight, "NVML_S", 2.0)
    assert preflight.gpu_names() == []
    ((well, text),) = preflight.gpus(1, torch=a_torch())
    assert not well and "NVIDIA driver" in text and "return the machine" in text


@pytest.mark.parametrize(("on_bus", "words"), [(8, "the PCI bus has 8"), (7, "the PCI bus has no more")])
def test_a_card_that_is_lost_is_distinguished_from_one_that_was_not_requested(tmp_path, on_bus, words):
    for place in range(on_bus):
        pci_device(tmp_path, f"0000:{place:02x}:00.0")
    ((well, text),) = preflight.gpus(8, Nvml(gpus=(A100,) * 7), a_torch(), tmp_path)
    assert not well and "7 of 8 GPUs are visible" in text and words in text


def test_shared_memory_of_docker_is_too_small(monkeypatch):
    size = SimpleNamespace(f_frsize=4096, f_blocks=16384)
    monkeypatch.setattr(os, "statvfs", lambda folder: size)
    well, text = preflight.shared_memory()
    assert not well
    assert "has 64 MiB, data loaders need 512" in text
    size.f_blocks *= 8
    assert preflight.shared_memory()[0]


def test_no_shared_memory_at_all(tmp_path):
    well, text = preflight.shared_memory(tmp_path / "shm")
    assert not well
    assert "No such file" in text


def test_check_before_measuring_has_an_exit_code(monkeypatch, capsys):
    monkeypatch.setattr(preflight, "shared_memory", lambda: (True, "shared memory is well"))
    assert main(["check", "--before", "cpu"]) == 0
    assert "shared memory is well" in capsys.readouterr().out
    monkeypatch.setattr(preflight, "gpus", lambda wanted: [(False, f"none of {wanted} GPUs")])
    assert main(["check", "--before", "cuda", "--gpus", "4"]) == 1
    assert "warn  none of 4 GPUs" in capsys.readouterr().out


def test_without_torch_only_that_is_reported(monkeypatch, capsys):
    from workloads.harness.checks import fitness

    monkeypatch.setattr(fitness.importlib.util, "find_spec", lambda name: None)
    assert main(["check", "--before", "cuda"]) == 1
    assert "torch is not installed" in capsys.readouterr().out


def test_a_torch_that_is_too_old_is_reported_before_anything_is_measured(monkeypatch):
    from workloads.harness.checks import fitness

    monkeypatch.setattr(
        fitness.machine, "fingerprint", lambda: {"torch": "2.8.0", "cuda": None, "python": "3.11"}
    )
    assert fitness.before_measuring("cpu")[0] == (False, "torch 2.8.0 is too old: install 2.9 or newer")
