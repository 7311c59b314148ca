"""Modes of a step beside eager: compiled by torch, and replayed as one CUDA graph."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from workloads.harness.engine.device import Device, UnsupportedError
from workloads.harness.prepared import Prepared

WARM_UP = 3  # steps on a stream of their own before a capture, as torch's documentation asks for


def check_mode(device: Device, mode: str) -> None:
    """Check that a device has a mode, and let compilers begin anew: a repeat must not find another's work.

    Raises:
        UnsupportedError: a graph is asked of a CPU.
    """
    if mode == "graph" and device.is_host:
        raise UnsupportedError(
            "mode graph is a CUDA graph and needs a GPU; on a CPU measure eager or compiled"
        )
    if mode == "compiled":
        import torch.compiler.config

        settings: Any = torch.compiler.config
        settings.force_disable_caches = True


@contextmanager
def as_written() -> Iterator[None]:
    """Run what was compiled as it is written, so that its operations can be counted."""
    import torch

    with torch.compiler.set_stance("force_eager"):
        yield


def captured(prepared: Prepared, device: Device) -> Prepared:
    """Capture a step as a CUDA graph; each step then replays it, into the same result.

    The graph reads the inputs where they are, so that a result follows them when they are changed in place.
    """
    import torch

    cuda: Any = torch.cuda
    aside = cuda.Stream(device.torch_device)
    aside.wait_stream(cuda.current_stream())
    with cuda.stream(aside):
        for _ in range(WARM_UP):
            prepared.step()
    cuda.current_stream().wait_stream(aside)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        result = prepared.step()

    def step() -> torch.Tensor:
        graph.replay()
        return result

    return replace(prepared, step=step)
