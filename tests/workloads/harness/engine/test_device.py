import re

import pytest
import torch

from workloads.harness.engine.clock import HostClock
from workloads.harness.engine.device import (
    KERNELS,
    Device,
    UnsupportedError,
    _set_precision,
    ask_first,
    check_torch,
    count_without_nvml,
    dtype_of,
    has_kernels,
    open_device,
)
from workloads.harness.probes import stack
from workloads.harness.probes.cpu import affinity
from workloads.harness.records.errors import WorkloadsError

CUDA = (torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn)
HOST = (torch.backends.mkldnn.matmul, torch.backends.mkldnn.conv, torch.backends.mkldnn.rnn)


def modes(backends):
    return {backend.fp32_precision for backend in backends}


@pytest.mark.parametrize(
    ("precision", "mode"), [("fp32", "ieee"), ("bf16", "ieee"), ("fp16", "ieee"), ("tf32", "tf32")]
)
def test_matmul_and_convolution_get_the_same_precision(precision, mode):
    _set_precision("tf32" if mode == "ieee" else "fp32")
    _set_precision(precision)
    assert modes(CUDA) == {mode}
    assert modes(HOST) == {"ieee"}
    _set_precision("fp32")


def old_readers():
    """Read the old switches, as torch.compile, flex_attention and users' code do; torch raises if they differ
    from the new ones.
    """
    return (
        torch.get_float32_matmul_precision(),
        torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cudnn.allow_tf32,
    )


@pytest.mark.parametrize("before", ["fp32", "tf32"])
@pytest.mark.parametrize(
    ("precision", "readings"), [("fp32", ("highest", False, False)), ("tf32", ("high", True, True))]
)
def test_old_and_new_switches_agree(before, precision, readings):
    _set_precision(before)
    _set_precision(precision)
    assert old_readers() == readings
    with torch.backends.cudnn.flags(enabled=True):
        assert modes(CUDA[:1]) == {"tf32" if precision == "tf32" else "ieee"}
    assert old_readers() == readings
    _set_precision("fp32")


def test_setting_the_precision_says_nothing(recwarn):
    _set_precision("tf32")
    _set_precision("fp32")
    assert list(recwarn) == []


@pytest.mark.parametrize("version", ["2.9.0+cu126", "2.13.0", "3.0.1"])
def test_a_torch_from_the_oldest_on_will_do(version):
    check_torch(version)


@pytest.mark.parametrize("version", ["2.8.0+cpu", "1.13.1"])
def test_an_older_torch_is_refused(version):
    with pytest.raises(
        UnsupportedError, match=rf"torch {re.escape(version)} is too old: install 2\.9 or newer"
    ):
        check_torch(version)


def test_torchs_own_default_is_overridden():
    """By default torch computes convolutions in TF32 and products in fp32."""
    torch.backends.cudnn.conv.fp32_precision = "tf32"
    torch.set_float32_matmul_precision("high")
    open_device("cpu", "fp32", 1)
    assert modes(CUDA) == {"ieee"}
    assert modes(HOST) == {"ieee"}


def test_opening_a_cpu_sets_its_threads():
    before = torch.get_num_threads()
    device = open_device("cpu", "fp32", 1)
    assert torch.get_num_threads() == 1
    assert device.is_host
    open_device("cpu", "fp32", min(before, len(affinity())))


@pytest.mark.parametrize("threads", [0, -1, 10_000])
def test_threads_that_can_not_be(threads):
    with pytest.raises(WorkloadsError, match=rf"threads={threads} must be from 1 to \d+"):
        open_device("cpu", "fp32", threads)


def test_an_unknown_device_is_an_error_that_lists_the_known_devices():
    with pytest.raises(WorkloadsError, match=r"device 'tpu' is unknown; .* cpu, cuda") as caught:
        open_device("tpu", "fp32", 1)
    assert not isinstance(caught.value, UnsupportedError)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_cuda_is_unsupported():
    with pytest.raises(UnsupportedError, match=r"torch finds no CUDA device here: ."):
        open_device("cuda", "fp32", 1)


@pytest.mark.parametrize(
    ("precision", "capability", "fits"),
    [
        ("tf32", (7, 5), False),
        ("bf16", (7, 5), False),
        ("fp16", (7, 5), True),
        ("fp32", (3, 5), True),
        ("bf16", (8, 0), True),
    ],
)
def test_an_old_gpu_lacks_the_new_precisions(monkeypatch, precision, capability, fits):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    monkeypatch.setattr(torch.cuda, "init", lambda: (_ for _ in ()).throw(InterruptedError))  # it went on
    wanted = (
        pytest.raises(InterruptedError)
        if fits
        else pytest.raises(UnsupportedError, match=r"Tesla T4 has 7\.5")
    )
    with wanted:
        open_device("cuda", precision, 1)


def test_tf32_is_fp32_in_memory():
    assert dtype_of("tf32") is dtype_of("fp32") is torch.float32
    assert (dtype_of("bf16"), dtype_of("fp16")) == (torch.bfloat16, torch.float16)


def test_torch_counts_gpus_without_an_nvml_that_kills(monkeypatch):
    """Torch's own function as a CUDA build runs it, with CUDA's two answers replaced."""
    cuda = torch.cuda
    monkeypatch.setattr(cuda, "_is_compiled", lambda: True)
    monkeypatch.setattr(cuda, "_device_count_nvml", lambda: pytest.fail("NVML was asked"))
    monkeypatch.setattr(torch._C, "_cuda_getDeviceCount", lambda: 3, raising=False)
    count_without_nvml()
    assert cuda.device_count() == 3


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_is_asked_first_and_all_others_remain(kernel):
    def switches():
        return torch._C._get_sdp_priority_order(), stack.settings()["sdpa"]

    before = switches()
    ask_first(kernel)
    try:
        order, enabled = switches()
        assert order[0] == int(getattr(torch.nn.attention.SDPBackend, KERNELS[kernel]))
        assert sorted(order) == sorted(before[0]) and enabled == before[1]
        ask_first(kernel)
    finally:
        ask_first("")
    assert switches() == before


@pytest.mark.parametrize(
    ("name", "capability", "precision", "several"),
    [
        ("cuda", (9, 0), "bf16", True),
        ("cuda", (12, 0), "fp16", True),
        ("cuda", (9, 0), "fp32", False),
        ("cuda", (8, 9), "bf16", False),
        ("cpu", (9, 0), "bf16", False),
    ],
)
def test_attention_has_several_kernels_from_hopper_on(monkeypatch, name, capability, precision, several):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert has_kernels(Device(name, torch.device(name), HostClock()), precision) == several
