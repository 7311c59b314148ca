import subprocess
import sys

import pytest
from torch.autograd import DeviceType
from torch.autograd.profiler_util import FunctionEvent

from workloads.harness.engine.profiling import _covered_s, _kernels, _ranked


def event(number, name, start_us, end_us, device=DeviceType.CUDA, annotation=False):
    return FunctionEvent(
        number,
        name,
        thread=1,
        start_us=start_us,
        end_us=end_us,
        device_type=device,
        is_user_annotation=annotation,
    )


EVENTS = [
    event(1, "Optimizer.step#Adam.step", 0, 1000, annotation=True),
    event(2, "multi_tensor_apply_kernel", 0, 100),
    event(3, "multi_tensor_apply_kernel", 500, 600),
    event(4, "aten::_foreach_add_", 0, 900, DeviceType.CPU),
    event(5, "Optimizer.step#Adam.step", 0, 1000, DeviceType.CPU, annotation=True),
]


def test_an_annotation_covers_gaps_and_is_no_kernel():
    kernels = _kernels(EVENTS)
    assert [kernel.name for kernel in kernels] == ["multi_tensor_apply_kernel"] * 2
    assert _covered_s(kernels) == pytest.approx(200e-6)


class Row:
    def __init__(self, key, device_type, self_device_time_total):
        self.key, self.device_type, self.self_device_time_total = key, device_type, self_device_time_total


def test_operators_are_ranked_and_not_their_kernels_beside_them():
    rows = [
        Row("aten::mm", DeviceType.CPU, 80.0),
        Row("sm90_xmma_gemm", DeviceType.CUDA, 80.0),
        Row("Optimizer.step#Adam.step", DeviceType.CUDA, 1000.0),
        Row("aten::addmm", DeviceType.CPU, 90.0),
    ]
    assert [row.key for row in _ranked(rows, "self_device_time_total")] == ["aten::addmm", "aten::mm"]


def test_the_profilers_own_messages_are_not_printed_as_ours():
    program = (
        "import os, torch; from workloads.harness.engine.device import open_device\n"
        "from workloads.harness.engine.profiling import profiled\n"
        "profiled(lambda: torch.ones(8) + 1, open_device('cpu', 'fp32', 1))\n"
        "assert 'KINETO_LOG_LEVEL' not in os.environ"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
