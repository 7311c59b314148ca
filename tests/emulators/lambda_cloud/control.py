"""Faults that a test sets, and calls that the emulator saw."""

import fnmatch
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

# Name → description of the GPU, GPUs, cents an hour. Source: the API's answer of 2026-09-20
TYPES = {
    "gpu_1x_a10": ("A10 (24 GB PCIe)", 1, 129),
    "gpu_1x_a100_sxm4": ("A100 (40 GB SXM4)", 1, 199),
    "gpu_1x_h100_pcie": ("H100 (80 GB PCIe)", 1, 329),
    "gpu_1x_gh200": ("GH200 (96 GB)", 1, 229),
    "gpu_8x_h100_sxm5": ("H100 (80 GB SXM5)", 8, 3192),
}
REGIONS = {
    "us-east-1": "Virginia, USA",
    "us-west-1": "California, USA",
    "us-south-1": "Texas, USA",
    "europe-central-1": "Germany",
}


@dataclass(frozen=True)
class Fate:
    """The fate of an instance, counted from its launch.

    no_ip: active without an address. never_active: boots for ever. mute: an address without a listener.
    unhealthy, preempted: after `after_s` seconds, in any state.
    """

    kind: Literal["no_ip", "never_active", "mute", "unhealthy", "preempted"]
    after_s: float = 0.0


@dataclass(eq=False)
class CallFault:
    """A fault of every n-th request of an operation, at most `limit` times.

    throttled: 429 with plain text. server_error: 500 as documented. provider: 503 with a provider's code.
    hang_up: the connection closes without an answer. empty: 200 without data. blocked, challenged, nowhere: a
    proxy before the API refuses the request, in plain text, with a page, or as an unknown path. `done`: the
    request takes effect and only its answer is lost.
    """

    operation: str = "*"
    every: int = 1
    answer: Literal[
        "throttled", "server_error", "provider", "hang_up", "empty", "blocked", "challenged", "nowhere"
    ] = "throttled"
    limit: int | None = None
    done: bool = False
    retry_after: str | None = None
    seen: int = 0
    hits: int = 0

    def strikes(self, operation: str) -> bool:
        if not fnmatch.fnmatchcase(operation, self.operation):
            return False
        self.seen += 1
        if self.seen % self.every or (self.limit is not None and self.hits >= self.limit):
            return False
        self.hits += 1
        return True


class Call(NamedTuple):
    """A received request, and the status of its answer (0: none)."""

    operation: str
    body: Any
    status: int
    agent: str = ""  # the User-Agent


@dataclass
class Control:
    key: str = "secret_standin_0123456789abcdef"
    prices: dict[str, float] = field(default_factory=lambda: {n: row[2] for n, row in TYPES.items()})
    # Type and region → how many more can be launched there
    capacity: dict[tuple[str, str], int] = field(default_factory=lambda: {("gpu_1x_a10", "us-east-1"): 4})
    refusing: set[tuple[str, str]] = field(default_factory=set)  # listed with capacity, and refuses
    quota: int = 20  # instances that can run at once
    account: Literal["active", "global/account-inactive", "global/invalid-address"] = "active"
    boot_s: float = 0.05  # until active; the address comes in the middle
    listed_after_s: float = 0.0  # a fresh instance is unknown for this long
    terminating_s: float = 0.05
    terminated_s: float = 0.05  # and this long it stays listed as terminated
    deaf: int = 0  # number of terminations that are answered with an empty list, without effect
    fates: deque[Fate | None] = field(default_factory=deque)  # of the next instances, in order
    call_faults: list[CallFault] = field(default_factory=list)
    call_least_s: float = 0.0  # a request sooner after the last one gets 429
    launch_least_s: float = 0.0
    retry_after: str | None = None  # header of those 429
    calls: list[Call] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def fault(self, operation: str = "*", answer: str = "throttled", **options: Any) -> CallFault:
        self.call_faults.append(CallFault(operation, answer=answer, **options))
        return self.call_faults[-1]

    def asked(self, operation: str) -> list[Call]:
        with self.lock:
            return [call for call in self.calls if call.operation == operation]
