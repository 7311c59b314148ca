import sys

import torch

from workloads.harness.engine.device import open_device
from workloads.harness.probes import stack


def test_the_settings_are_torchs_own():
    open_device("cpu", "fp32", 1)
    before = stack.settings()
    assert before["cudnn_benchmark"] is torch.backends.cudnn.benchmark is False
    assert before["float32_matmul_precision"] == "highest"
    assert {"fp16_reduced_precision", "bf16_reduced_precision"} <= before.keys()
    assert "math" in before["sdpa"]
    torch.backends.cuda.enable_flash_sdp(not torch.backends.cuda.flash_sdp_enabled())
    try:
        assert ("flash" in stack.settings()["sdpa"]) != ("flash" in before["sdpa"])
    finally:
        torch.backends.cuda.enable_flash_sdp("flash" in before["sdpa"])


def test_nccl_is_asked_for_where_torch_has_cuda(monkeypatch):
    monkeypatch.setattr(torch.cuda.nccl, "version", lambda: (2, 27, 5))
    monkeypatch.setattr(torch.version, "cuda", None)
    assert stack.libraries()["nccl"] is None  # of a torch for CPUs
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert stack.libraries()["nccl"] == "2.27.5"


def test_settings_that_a_torch_lacks_are_left_out(monkeypatch):
    monkeypatch.setitem(stack.SETTINGS, "newer", lambda torch: torch.backends.no_such_thing)
    monkeypatch.setitem(stack.LIBRARIES, "newer", lambda torch: torch.backends.no_such_thing)
    assert "newer" not in stack.settings()
    assert stack.libraries()["newer"] is None


def test_without_torch_nothing_is_imported_for_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch")
    assert stack.settings() == {}
    assert stack.libraries() == {"cudnn": None, "nccl": None}
    assert "torch" not in sys.modules
