"""Open a device with explicit threads and precision, never torch's defaults."""

from __future__ import annotations

import warnings
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workloads.harness.engine.clock import Clock, CudaClock, HostClock
from workloads.harness.probes.cpu import affinity
from workloads.harness.probes.device_here import FABRIC, is_not_ready
from workloads.harness.records.case import DEVICES
from workloads.harness.records.errors import WorkloadsError

if TYPE_CHECKING:
    import torch

OLDEST_TORCH = (2, 9)  # the first with `fp32_precision`, which alone says what convolutions compute in
# Compute capability from which a precision is in the hardware: CUDA C++ Programming Guide.
CAPABILITY = {"fp16": (5, 3), "bf16": (8, 0), "tf32": (8, 0), "fp8": (8, 9)}
ONLY_ON_GPUS = {"tf32": "Ampere", "fp8": "Ada"}
# Kernels of attention to try from Hopper on, in fp16 and bf16, with torch's names. On an H100 cuDNN's had 1.7 to 2.3
# times the speed of FlashAttention-2's in training (huggingface/transformers PR 48163), and 0.84 to 1.06 times in
# short passes (sgl-project/sglang PR 30090). On older cards it gains nothing. Torch's own order depends on its version.
KERNELS = {"cudnn": "CUDNN_ATTENTION", "flash": "FLASH_ATTENTION"}
_asked_first = ExitStack()  # of this process, as torch's own setting is


class UnsupportedError(WorkloadsError):
    """The device cannot do what the case requires."""


@dataclass(frozen=True, slots=True)
class Device:
    """An initialised device and its clock."""

    name: str
    torch_device: torch.device
    clock: Clock

    @property
    def is_host(self) -> bool:
        return self.name == "cpu"


def open_device(name: str, precision: str, threads: int) -> Device:
    """Set threads and precision, initialise the device and wait until it answers.

    Raises:
        UnsupportedError: this machine has no such device, or it lacks the precision.
    """
    import torch

    if name not in DEVICES:
        raise WorkloadsError(f"device {name!r} is unknown; choose from {', '.join(DEVICES)}")
    limit = len(affinity())
    if not 1 <= threads <= limit:
        raise WorkloadsError(
            f"threads={threads} must be from 1 to {limit}, the number of CPUs that this process can use"
        )
    check_torch(torch.__version__)
    torch.set_num_threads(threads)
    _set_precision(precision)
    if name == "cpu":
        if since := ONLY_ON_GPUS.get(precision):
            raise UnsupportedError(
                f"{precision} needs an NVIDIA GPU ({since} or newer); on a CPU measure fp32 or bf16"
            )
        return Device(name, torch.device("cpu"), HostClock())
    return _open_cuda(precision)


def check_torch(version: str) -> None:
    major, minor = (int(number) for number in version.split(".")[:2])
    if (major, minor) < OLDEST_TORCH:
        oldest = "{}.{}".format(*OLDEST_TORCH)
        raise UnsupportedError(f"torch {version} is too old: install {oldest} or newer")


def _open_cuda(precision: str) -> Device:
    import torch

    if not torch.cuda.is_available():
        why = why_no_cuda()
        raise UnsupportedError(FABRIC if is_not_ready(why) else f"torch finds no CUDA device here: {why}")
    device = torch.device("cuda", 0)
    capability = torch.cuda.get_device_capability(device)
    needed = CAPABILITY.get(precision, (0, 0))
    if capability < needed:
        raise UnsupportedError(
            f"{precision} needs compute capability {needed[0]}.{needed[1]}; "
            f"{torch.cuda.get_device_name(device)} has {capability[0]}.{capability[1]}"
        )
    torch.cuda.init()  # type: ignore[no-untyped-call]
    torch.empty(1, device=device)
    torch.cuda.synchronize(device)
    return Device("cuda", device, CudaClock(device))


def count_without_nvml() -> None:
    """Have torch count GPUs by CUDA alone: NVML could hang or kill this process."""
    import torch

    cuda: Any = torch.cuda
    cuda._device_count_nvml = lambda: -1  # torch's own sign that NVML does not know


def why_no_cuda() -> str:
    import torch

    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
    except Exception as error:
        return next(iter(str(error).strip().splitlines()), type(error).__name__)
    return "the driver shows no GPU to this process; check CUDA_VISIBLE_DEVICES"


def _set_precision(precision: str) -> None:
    """Set fp32 arithmetic for matmul and convolution: torch would use TF32 for convolutions.

    The old switches come first: torch raises an error if old and new contradict each other
    (https://github.com/pytorch/pytorch/issues/166387).
    """
    import torch

    tf32 = precision == "tf32"
    backends: Any = torch.backends  # torch has no types for these settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's advice to set the new ones only
        backends.cudnn.allow_tf32 = tf32
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
    for backend in (backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn):
        backend.fp32_precision = "tf32" if tf32 else "ieee"
    for backend in (backends.mkldnn.matmul, backends.mkldnn.conv, backends.mkldnn.rnn):
        backend.fp32_precision = "ieee"
    torch.backends.cudnn.benchmark = False  # until the GPU's clock is up: see `search_algorithms`


def search_algorithms(search: bool = True) -> None:
    """Turn cuDNN's search on or off; on an idle GPU the first algorithms seem slow."""
    import torch

    torch.backends.cudnn.benchmark = search


def has_kernels(device: Device, precision: str) -> bool:
    """Return whether attention has several fast kernels: Hopper or newer, in fp16 or bf16."""
    import torch

    if device.is_host or precision not in ("fp16", "bf16"):
        return False
    return torch.cuda.get_device_capability(device.torch_device) >= (9, 0)


def ask_first(kernel: str) -> None:
    _asked_first.close()
    if not kernel:
        return
    from torch.nn.attention import SDPBackend, sdpa_kernel

    order = (KERNELS[kernel], *KERNELS.values(), "EFFICIENT_ATTENTION", "MATH")
    backends = [getattr(SDPBackend, name) for name in dict.fromkeys(order)]
    _asked_first.enter_context(sdpa_kernel(backends, set_priority=True))


def dtype_of(precision: str) -> torch.dtype:
    """Return the element type of a precision; tf32 is fp32 in memory."""
    import torch

    kinds = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
    return kinds.get(precision, torch.float8_e4m3fn)
