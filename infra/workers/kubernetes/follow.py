"""One job, followed from its creation to its end."""

import datetime as dt
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
from prefect.client.schemas.objects import FlowRun

from infra.workers.base.outcome import JobOutcome
from infra.workers.kubernetes.api import NamespaceApi, Object
from infra.workers.kubernetes.configuration import KubernetesJobsConfiguration
from infra.workers.kubernetes.errors import sentence
from infra.workers.kubernetes.reasons import (
    Waiting,
    deleted_first,
    ending,
    explained,
    finished,
    newest,
    stages_s,
    started_at,
    unplaced,
    waiting,
)
from infra.workers.kubernetes.settings import KubernetesSettings
from infra.workers.kubernetes.view import View

CANCELLED = JobOutcome("Cancelled", "Cancelled from Prefect; the Kubernetes job was deleted.")


@dataclass(eq=False)
class KubernetesFollow:
    """One run's job, and what was said about it so far."""

    run: FlowRun
    job_id: str
    name: str
    asked: KubernetesJobsConfiguration
    api: NamespaceApi
    view: View
    pace: KubernetesSettings
    log: logging.LoggerAdapter[Any]
    note: Callable[[dict[str, float]], Awaitable[None]]  # takes what the run's labels shall say
    stop: JobOutcome | None = None  # why the worker ends the job itself
    handed_over: bool = False
    pod: Object | None = None
    stages_s: dict[str, float] = field(default_factory=dict)  # until the container ran; empty before
    since: float = field(default_factory=anyio.current_time)
    _deleted: bool = False
    _told: str = ""
    _trouble_since: float | None = None

    def cancel(self) -> None:
        """The run was cancelled in Prefect: end the job, whatever it does."""
        if self.stop is None or self.stop.name != "Cancelled":
            self.stop = CANCELLED
        self.view.wake(self.name)

    def hand_over(self) -> None:
        """Another worker follows the run."""
        self.handed_over = True
        self.view.wake(self.name)

    async def to_the_end(self) -> JobOutcome | None:
        """Follow the job until it has ended; None when another worker follows it from now on."""
        try:
            while not self.handed_over:
                version = self.view.version(self.name)
                if found := await self._look():
                    return found
                await self.view.news(self.name, version, self.pace.poll_s)
            return None
        finally:
            self.view.forget(self.name)

    async def _look(self) -> JobOutcome | None:
        job = self.view.jobs.get(self.name)
        self.pod = newest(self.view.pods.get(self.name, {}).values()) or self.pod
        condition = finished(job) if job else None
        if job is None or (condition and deleted_first(job, condition)):
            return self.stop or JobOutcome(
                "Crashed", f"The Kubernetes job {self.job_id} was deleted from outside before it had ended."
            )
        ended = (self.stop or await self._ended(condition)) if condition else None
        await self._note_start(job)
        if ended:
            return ended
        if self.stop is None:
            self.stop = await self._overdue(job)
        if self.stop is not None and not self._deleted:
            await self._delete(self.stop)
        return None

    async def _note_start(self, job: Object) -> None:
        """Say how long the container's start took, once it runs: a run's bill is made before its job ends."""
        began = started_at(self.pod)
        if began and not self.stages_s:
            self.stages_s = stages_s(_created_at(job), self.pod, began)
            await self.note(self.stages_s)
            self.log.info("The container of Kubernetes job %s runs.", self.name)

    async def _ended(self, condition: Object) -> JobOutcome:
        """Jobs and pods are watched apart: the pod's own end may come a little after that of its job."""
        deadline = anyio.current_time() + self.pace.late_s
        while True:
            version = self.view.version(self.name)
            self.pod = newest(self.view.pods.get(self.name, {}).values()) or self.pod
            left_s = deadline - anyio.current_time()
            if left_s <= 0 or (self.pod and _over(self.pod)):
                return ending(condition, self.pod, self.asked.memory_mib, self.asked.timeout_s)
            await self.view.news(self.name, version, left_s)

    async def _overdue(self, job: Object) -> JobOutcome | None:
        """Say what the job waits for; returns why it is to be ended, or None where it may go on."""
        began, now = started_at(self.pod), dt.datetime.now(dt.UTC)
        if began:
            if (now - began).total_seconds() > self.asked.timeout_s:
                return JobOutcome("TimedOut", f"The job was ended after timeout_s {self.asked.timeout_s}.")
            return None
        found = waiting(self.pod)
        if found.kind in ("image", "never", "container"):
            return self._broken(found)
        self._trouble_since = None
        waited_s = (now - _created_at(job)).total_seconds()
        late = waited_s > self.asked.schedule_within_s
        if late or (waited_s > self.pace.explain_s and found.message != self._told):
            events = await self._events()
            if late:
                return unplaced(found, events, self.asked.schedule_within_s)
            self._told = found.message
            left_s = self.asked.schedule_within_s - waited_s
            why = explained(found, events)
            self.log.warning("The pod has waited %.0f s, %.0f s are left. %s.", waited_s, left_s, why)
        return None

    def _broken(self, found: Waiting) -> JobOutcome | None:
        """An image that does not come, or a container that can't be made: some of it passes."""
        now = anyio.current_time()
        self._trouble_since = self._trouble_since or now
        if found.kind != "never" and now - self._trouble_since <= self.pace.pull_s:
            if not self._told.startswith("pull"):
                self.log.warning("%s.", found.message.rstrip(". "))
                self._told = "pull"
            return None
        if found.kind == "container":
            return JobOutcome("Crashed", f"The container could not be made: {found.message.rstrip('. ')}.")
        text = f"The image {self.asked.image} could not be pulled: {found.message.rstrip('. ')}."
        return JobOutcome("ImagePullFailed", text)

    async def _events(self) -> list[Object]:
        """What the cluster says of the pod, or of the job where it has none; nothing rests on it."""
        name = self.pod["metadata"]["name"] if self.pod else self.name
        try:
            return await self.api.events(name)
        except Exception as error:
            self.log.warning("%s", sentence(error, "list events"))
            return []

    async def _delete(self, why: JobOutcome) -> None:
        """Have the cluster end the job; asked again at the next look where the call failed."""
        try:
            await self.api.delete(self.name, self.asked.grace_s)
        except Exception as error:
            self.log.warning("%s The job is not deleted yet.", sentence(error, "delete jobs"))
            return
        self._deleted = True
        self.log.info("Kubernetes job %s is deleted: %s", self.job_id, why.message)


def _created_at(job: Object) -> dt.datetime:
    return dt.datetime.fromisoformat(job["metadata"]["creationTimestamp"])


def _over(pod: Object) -> bool:
    """Whether a pod has come to its end, as far as anybody will ever tell."""
    return pod["status"].get("phase") in ("Succeeded", "Failed") or bool(pod.get("gone"))
