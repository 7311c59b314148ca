"""Faults that a test sets, and calls that the emulator saw."""

import contextlib
import fnmatch
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(eq=False)
class Fault:
    """A fault of jobs with a matching name, in the given attempts (None: every attempt).

    reclaim: the host is taken `after_s` after the start, or when a line with `after_line` is logged. pull:
    the image cannot be pulled. stuck: RUNNABLE with `reason` until `Control.lift`.
    """

    kind: Literal["reclaim", "pull", "stuck"]
    job: str = "*"
    attempts: tuple[int, ...] | None = (1,)
    after_s: float = 0.0
    after_line: str | None = None
    reason: str | None = None
    hits: int = 0

    def meets(self, kind: str, job_name: str, attempt: int) -> bool:
        wanted = self.attempts is None or attempt in self.attempts
        return self.kind == kind and wanted and fnmatch.fnmatchcase(job_name, self.job)


@dataclass(eq=False)
class CallFault:
    """A fault of every n-th call of an operation, at most `limit` times.

    throttled: 429 TooManyRequestsException from Batch, its equivalent elsewhere. server_error: 500. expired:
    an expired session token. hang_up: the connection closes without an answer. `done`: the call takes effect
    and only its answer is lost.
    """

    operation: str = "*"
    every: int = 1
    answer: Literal["throttled", "server_error", "expired", "hang_up"] = "throttled"
    limit: int | None = None
    service: str = "*"
    done: bool = False
    seen: int = 0
    hits: int = 0

    def strikes(self, service: str, operation: str) -> bool:
        if not (
            fnmatch.fnmatchcase(operation, self.operation) and fnmatch.fnmatchcase(service, self.service)
        ):
            return False
        self.seen += 1
        if self.seen % self.every or (self.limit is not None and self.hits >= self.limit):
            return False
        self.hits += 1
        return True


@dataclass
class Control:
    faults: list[Fault] = field(default_factory=list)
    call_faults: list[CallFault] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)  # operation → calls, the failed ones too
    batch_calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)  # operation, request
    forget_polls: int = 0  # DescribeJobs leaves a fresh job out of its first n answers
    images: dict[str, str] = field(default_factory=dict)  # image reference (glob) → image in podman's storage
    hide_metadata: bool = False  # no metadata service in the containers
    metadata: dict[str, str] = field(default_factory=dict)  # answers of the metadata service that lie
    container_environment: dict[str, str] = field(
        default_factory=dict
    )  # in every container, not in DescribeJobs
    queued_s: float = 0.1  # RUNNABLE at least this long
    least_timeout_s: int = 60  # AWS's minimum; a test can lower it
    stop_grace_s: int = 2  # between SIGTERM and SIGKILL; ECS: 30
    time_limit_scale: float = 1.0  # a queue's maxTimeSeconds are multiplied with it: AWS's minimum is 600 s
    containers_at_once: int = 3  # on this machine, whatever the compute environments allow
    changed: threading.Condition = field(default_factory=threading.Condition)

    def reset(self) -> None:
        """Forget everything; threads that wait on the old condition keep it."""
        fresh = Control(changed=self.changed)
        self.__dict__.update(fresh.__dict__)
        self.notify()

    def notify(self) -> None:
        with self.changed:
            self.changed.notify_all()

    def wait(self, timeout_s: float) -> None:
        with self.changed:
            self.changed.wait(timeout_s)

    def fault(self, kind: str, job_name: str, attempt: int) -> Fault | None:
        return next((fault for fault in self.faults if fault.meets(kind, job_name, attempt)), None)

    def add(self, kind: str, job: str = "*", **options: Any) -> Fault:
        self.faults.append(Fault(kind, job, **options))
        return self.faults[-1]

    def lift(self, fault: Fault) -> None:
        """End the fault; a stuck job continues."""
        self.faults.remove(fault)
        self.notify()

    def throttle(self, operation: str = "*", every: int = 1, **options: Any) -> CallFault:
        self.call_faults.append(CallFault(operation, every, **options))
        return self.call_faults[-1]

    @contextlib.contextmanager
    def lost_network(self, service: str = "*", answer: str = "hang_up") -> Iterator[CallFault]:
        fault = CallFault("*", 1, answer, service=service)
        self.call_faults.append(fault)
        try:
            yield fault
        finally:
            self.call_faults.remove(fault)


control = Control()
