"""What a test tells the cloud to do, and what the cloud saw."""

import contextlib
import fnmatch
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(eq=False)
class Fault:
    """What happens to the jobs whose name matches, in the attempts named (None: in every attempt).

    reclaim: the host is taken away `after_s` after the start, or when a line with `after_line` is logged.
    pull: the image cannot be pulled. stuck: RUNNABLE with `reason` until `Control.lift`.
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
    """What happens to API calls: every n-th call of an operation, at most `limit` times.

    throttled: 429 TooManyRequestsException from Batch, its like elsewhere. server_error: 500. expired: a session
    token whose time is over.
    hang_up: the connection is closed without an answer, as when the network is lost.
    `done` makes the server act first and lose only the answer.
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
        """Counts the call, and says whether it is one that fails."""
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
    """The cloud's knobs and its memory; `reset` puts all of it back."""

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
    least_timeout_s: int = 60  # AWS's minimum; a test may lower it
    stop_grace_s: int = 2  # between SIGTERM and SIGKILL; ECS: 30
    time_limit_scale: float = 1.0  # a queue's maxTimeSeconds are multiplied with it: AWS's minimum is 600 s
    containers_at_once: int = 3  # on this machine, whatever the compute environments allow
    changed: threading.Condition = field(default_factory=threading.Condition)

    def reset(self) -> None:
        """As new; whoever waits on the old condition keeps it."""
        fresh = Control(changed=self.changed)
        self.__dict__.update(fresh.__dict__)
        self.notify()

    def notify(self) -> None:
        """Wakes the jobs that wait for something to change."""
        with self.changed:
            self.changed.notify_all()

    def wait(self, timeout_s: float) -> None:
        with self.changed:
            self.changed.wait(timeout_s)

    def fault(self, kind: str, job_name: str, attempt: int) -> Fault | None:
        """The first fault that meets a job's attempt."""
        return next((fault for fault in self.faults if fault.meets(kind, job_name, attempt)), None)

    def add(self, kind: str, job: str = "*", **options: Any) -> Fault:
        """A fault from now on."""
        self.faults.append(Fault(kind, job, **options))
        return self.faults[-1]

    def lift(self, fault: Fault) -> None:
        """The fault is over; a stuck job goes on."""
        self.faults.remove(fault)
        self.notify()

    def throttle(self, operation: str = "*", every: int = 1, **options: Any) -> CallFault:
        """Every n-th call of the operation is answered with a throttling error."""
        self.call_faults.append(CallFault(operation, every, **options))
        return self.call_faults[-1]

    @contextlib.contextmanager
    def lost_network(self, service: str = "*", answer: str = "hang_up") -> Iterator[CallFault]:
        """No call of the service gets through for a while."""
        fault = CallFault("*", 1, answer, service=service)
        self.call_faults.append(fault)
        try:
            yield fault
        finally:
            self.call_faults.remove(fault)


control = Control()
