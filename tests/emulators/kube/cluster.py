"""The cluster: its store, and the controllers that react to each change, in one event loop."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from tests.emulators.kube import garbage
from tests.emulators.kube.api_server import admission, quota
from tests.emulators.kube.api_server.objects import KINDS, Obj, Refused, stamp
from tests.emulators.kube.api_server.rbac import Tokens
from tests.emulators.kube.api_server.store import Change, Store
from tests.emulators.kube.jobs import JobController
from tests.emulators.kube.nodes.autoscaler import Autoscaler
from tests.emulators.kube.nodes.ends import CLOSED
from tests.emulators.kube.nodes.kubelet import Kubelet
from tests.emulators.kube.nodes.nodes import Nodes
from tests.emulators.kube.nodes.runner import Runner
from tests.emulators.kube.nodes.scheduler import Scheduler
from tests.emulators.kube.pace import Pace

CLOSING_S = 30  # for containers to die in


class Cluster:
    """Everything behind the API. Only its own loop's thread can touch it."""

    def __init__(self, pace: Pace, runner: Runner, gke: bool) -> None:
        self.pace, self.runner, self.gke = pace, runner, gke
        self.store, self.tokens = Store(), Tokens()
        self.images: dict[str, str] = {}  # image reference (glob) → the one that the runner knows
        self.pull_failures: dict[str, str] = {}  # image reference (glob) → why it can't be pulled
        self.tasks: set[asyncio.Task[Any]] = set()
        self.waiting: set[str] = set()  # what `soon` has put off
        self.told: dict[tuple[str, ...], str] = {}  # an event's content → its name
        self.problems: list[Exception] = []  # what failed in the stand-in itself
        self.jobs, self.kubelet = JobController(self), Kubelet(self)
        self.scheduler, self.nodes, self.autoscaler = Scheduler(self), Nodes(self), Autoscaler(self)
        self.collector = garbage.Collector(self)
        self.store.listeners.append(self.on_change)

    def on_change(self, change: Change) -> None:
        self.jobs.on_change(change)
        self.kubelet.on_change(change)
        self.scheduler.on_change(change)
        self.nodes.on_change(change)
        self.autoscaler.on_change(change)
        self.collector.on_change(change)
        if change.plural in ("pods", "jobs"):
            namespace = change.object["metadata"]["namespace"]
            if any(key[0] == namespace for key in self.store.objects["resourcequotas"]):
                self.soon(f"quota {namespace}", lambda: quota.refresh(self.store, namespace))

    def soon(self, name: str, act: Callable[[], None], after_s: float = 0.0) -> None:
        """Act once after a while, however often it is requested before."""
        if name in self.waiting:
            return
        self.waiting.add(name)

        def now() -> None:
            self.waiting.discard(name)
            self.guarded(act)

        self.later(after_s, now)

    def later(self, after_s: float, act: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(after_s, lambda: self.guarded(act))

    def guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:
            self.problems.append(error)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run concurrently; keep an exception as a problem of the emulator."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.done)
        return task

    def done(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self.problems.append(error)

    def create(self, plural: str, namespace: str, obj: Obj) -> Obj:
        admitted = admission.admit(self.store, KINDS[plural], namespace, obj, self.gke)
        stored = self.store.add(plural, admitted)
        if plural == "namespaces":
            self.create("serviceaccounts", stored["metadata"]["name"], {"metadata": {"name": "default"}})
        return stored

    def apply(self, obj: Obj) -> Obj:
        kind = next(kind for kind in KINDS.values() if kind.name == obj["kind"])
        namespace = obj["metadata"].get("namespace", "default") if kind.namespaced else ""
        try:
            return self.create(kind.plural, namespace, obj)
        except Refused as refused:
            if refused.code != 409:
                raise
        new = {name: value for name, value in obj.items() if name not in ("metadata", "status")}
        key = (namespace, obj["metadata"]["name"])
        return self.store.update(kind.plural, key, lambda old: old.update(new)) or obj

    def event(
        self,
        about: Obj,
        reason: str,
        message: str,
        component: str,
        warning: bool = False,
        container: str = "",
    ) -> None:
        """Record an Event about an object; a repeated one counts up."""
        metadata = about["metadata"]
        namespace = metadata.get("namespace", "default")
        if self.store.find("namespaces", ("", namespace)) is None:
            return
        told = (metadata["uid"], reason, message, component)
        if (name := self.told.get(told)) and self.store.find("events", (namespace, name)):
            self.store.update("events", (namespace, name), count_up)
            return
        # As client-go names them, so that a list, which is by name, has them in the order of time.
        self.told[told] = name = f"{metadata['name']}.{time.time_ns():x}"
        event = {
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": involved(about, container),
            "reason": reason,
            "message": message,
            "type": "Warning" if warning else "Normal",
            "source": {"component": component},
            "reportingComponent": component,
            "reportingInstance": "",
            "count": 1,
            "eventTime": None,
            "firstTimestamp": stamp(),
            "lastTimestamp": stamp(),
        }
        self.store.add("events", event)

    async def close(self) -> None:
        lives = list(self.kubelet.lives)
        for worker in list(self.kubelet.workers.values()):
            worker.end(CLOSED)
        if lives:
            await asyncio.wait(lives, timeout=CLOSING_S)
        await self.runner.close()
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def count_up(event: Obj) -> None:
    event["count"] += 1
    event["lastTimestamp"] = stamp()


def involved(about: Obj, container: str) -> Obj:
    metadata = about["metadata"]
    reference = {name: metadata.get(name) for name in ("namespace", "name", "uid", "resourceVersion")}
    reference |= {"kind": about["kind"], "apiVersion": about["apiVersion"]}
    reference["fieldPath"] = f"spec.containers{{{container}}}" if container else None
    return {name: value for name, value in reference.items() if value}
