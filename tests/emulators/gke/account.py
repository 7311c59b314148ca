"""The emulated GKE account: clusters, operations that end after some looks, and faults."""

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from google.cloud import container_v1 as gke
from google.rpc.status_pb2 import Status
from grpc import StatusCode

from tests.emulators.gke import reasons

HOST = "https://container.googleapis.com/v1"
CA = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t"  # how a certificate begins, in base64
DONE = gke.Operation.Status.DONE
STATUS = gke.Operation.Status
Deed = Callable[[str], None]  # the effect of an operation's end, given the text of its error


class Refusal(Exception):
    def __init__(self, code: StatusCode, text: str, reason: str = "") -> None:
        super().__init__(text)
        self.code, self.text, self.reason = code, text, reason


@dataclass
class Fault:
    """A fault of a method.

    Attributes:
        after: the call takes effect and only its answer is lost.
        reason: Google's reason in the error's details.
    """

    method: str
    code: StatusCode
    text: str = "try again"
    times: int = 1
    after: bool = False
    reason: str = ""


@dataclass
class Work:
    operation: gke.Operation
    deed: Deed
    looks: int = 0


@dataclass
class Account:
    """The state of the emulated account.

    Attributes:
        requests: every called method with its message.
        failing: a cluster or pool, with the code and text of its next operation's error.
        absent: accelerators that the zone lacks.
        accounts: service accounts that nodes can act as; None for any.
        old_customer: can still make clusters in no release channel.
        looks: looks at an operation until it ends.
        stuck: operations never end.
        endpoint: of a cluster's Kubernetes API.
        ca: its certificate, in base64.
    """

    clusters: dict[str, gke.Cluster] = field(default_factory=dict)
    works: dict[str, Work] = field(default_factory=dict)
    requests: list[tuple[str, Any]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    failing: dict[str, tuple[int, str]] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    networks: set[str] = field(default_factory=lambda: {"default"})
    accounts: set[str] | None = None
    old_customer: bool = False
    missing_zones: list[str] = field(default_factory=list)
    looks: int = 2
    stuck: bool = False
    endpoint: str = "203.0.113.7"
    ca: str = CA
    lock: Any = field(default_factory=threading.RLock)
    numbers: Any = field(default_factory=lambda: itertools.count(1))

    def called(self, method: str) -> list[Any]:
        return [message for name, message in self.requests if name == method]

    @property
    def changes(self) -> list[str]:
        return [name for name, _ in self.requests if name.startswith(("Create", "Delete"))]

    def begin(self, kind: str, target: str, deed: Deed) -> gke.Operation:
        parent = target.partition("/clusters/")[0]
        name = f"operation-{next(self.numbers)}"
        operation = gke.Operation(
            name=name,
            operation_type=gke.Operation.Type[kind],
            status=STATUS.PENDING,
            target_link=f"{HOST}/{target}",
            location=parent.rpartition("/")[2],
        )
        self.works[f"{parent}/operations/{name}"] = Work(operation, deed)
        return operation

    def check_idle(self, cluster: str) -> None:
        for work in self.works.values():
            target = work.operation.target_link.removeprefix(f"{HOST}/")
            if work.operation.status != DONE and f"{target}/".startswith(f"{cluster}/"):
                text = reasons.BUSY.format(operation=work.operation.name)
                raise Refusal(StatusCode.FAILED_PRECONDITION, text)

    def look(self, name: str) -> gke.Operation:
        """Return an operation, one step further than at the last look."""
        work = self.works.get(name)
        if work is None:
            raise Refusal(StatusCode.NOT_FOUND, reasons.NOT_FOUND.format(name=name))
        if work.operation.status != DONE and not self.stuck:
            work.looks += 1
            if work.looks >= self.looks:
                self._end(work)
            else:
                work.operation.status = STATUS.RUNNING
        return work.operation

    def _end(self, work: Work) -> None:
        operation = work.operation
        code, text = self.failing.pop(operation.target_link.rpartition("/")[2], (0, ""))
        if text:
            operation.error = Status(code=code, message=text)
        operation.status = DONE
        work.deed(text)
