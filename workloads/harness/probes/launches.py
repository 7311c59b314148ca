"""The host's speed at handing operations to the device, in launches per second."""

import time
from collections.abc import Callable
from typing import Any

PIECES, LAUNCHES = 20, 200  # a piece takes 0.2 to 3 ms; the queue of a GPU holds about 1000 launches


def launches_per_s(device: str, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the tiny operations per second that the host hands to `device`, or raise RuntimeError.

    The best of 20 pieces of a fixed loop, the least interrupted; at most 0.1 s in total. A piece begins with
    an empty queue and ends when the last operation is queued, on a CPU when it is done.
    """
    import torch

    cuda: Any = torch.cuda if device == "cuda" else None
    if cuda and cuda.is_available() and cuda.is_current_stream_capturing():
        raise RuntimeError("a CUDA graph is being captured")
    number = torch.zeros(1, dtype=torch.float32, device=device).add_(1.0)
    pieces_s = []
    for _ in range(PIECES):
        if cuda:
            cuda.current_stream().synchronize()
        started_s = clock()
        for _ in range(LAUNCHES):
            number.add_(1.0)
        pieces_s.append(clock() - started_s)
    return LAUNCHES / max(min(pieces_s), 1e-9)


def reading(device: str) -> tuple[dict[str, float], dict[str, str]]:
    try:
        return {"launches_per_s": launches_per_s(device)}, {}
    except Exception as error:  # builds without CUDA raise an AssertionError, for one
        first = next(iter(str(error).splitlines()), type(error).__name__)
        return {}, {"launches_per_s": first[:200]}
