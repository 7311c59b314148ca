"""One job, followed from its creation to its end."""

import datetime as dt
import logging
from dataclasses import dataclass
from http import HTTPStatus

import anyio
from kubernetes_asyncio.client.exceptions import ApiException

from infra.workers.base.follow import JobFollow
from infra.workers.base.log_lines import Lines, Send
from infra.workers.base.outcome import JobOutcome, MachineTime, StartTimes, StateName
from infra.workers.kubernetes.api import NamespaceApi, Object
from infra.workers.kubernetes.configuration import KubernetesJobsConfiguration
from infra.workers.kubernetes.errors import LoginFailed, sentence, transient
from infra.workers.kubernetes.reasons import (
    CONFIG_ERROR,
    CONTAINER,
    Waiting,
    by_itself,
    deleted_first,
    ended_at,
    explained,
    finished,
    is_over,
    newest,
    outcome_of,
    pod_refused,
    start_times,
    started_at,
    unplaced,
    waiting,
)
from infra.workers.kubernetes.settings import KubernetesSettings
from infra.workers.kubernetes.view import LOOK, View

STAGE_LABELS = "kubernetes.unscheduled_s", "kubernetes.starting_s"
LOGGER = "kubernetes.container"
LATE_END_S = 300  # after its deadline, until an invisible job counts as ended
NO_POD_S = 5.0  # a Job has its pod within a second: without one after this time its events are read


@dataclass(eq=False, kw_only=True)
class KubernetesFollow(JobFollow):
    """One run's job, and its observed state.

    Attributes:
        start_times: until the container ran; None before.
        seen_at: when the job was last seen alive, in seconds of anyio's clock.
    """

    name: str
    configuration: KubernetesJobsConfiguration
    api: NamespaceApi
    view: View
    settings: KubernetesSettings
    send: Send
    pod: Object | None = None
    start_times: StartTimes | None = None
    seen_at: float | None = None
    _explained: str = ""
    _vanished: JobOutcome | None = None
    _ask_why_s: float = NO_POD_S
    _trouble_since: float | None = None

    @property
    def cancelled_message(self) -> str:
        return "Cancelled from Prefect; the Kubernetes job was deleted."

    def wake(self) -> None:
        self.view.wake(self.name)

    async def to_the_end(self) -> JobOutcome | None:
        self.view.follow(self.name)
        try:
            while not self.handed_over:
                version = self.view.version(self.name)
                if outcome := await self._look():
                    await self._show_log()
                    return outcome
                if outcome := self._unseen():
                    return outcome
                await self.view.news(self.name, version, self.settings.poll_s)
            return None
        finally:
            self.view.forget(self.name)

    async def _show_log(self) -> None:
        """Send the container's output; a pod whose node is gone has no more."""
        if self.pod is None or self.start_times is None or self.pod.get("gone"):
            return
        try:
            text = await self.api.log(self.pod["metadata"]["name"], CONTAINER)
        except Exception as error:
            if isinstance(error, ApiException) and error.status == HTTPStatus.NOT_FOUND:
                self.log.info("The pod no longer exists, so its container's log is lost.")
                return
            self.log.warning("The container's log cannot be shown: %s", sentence(error, "read pods' logs"))
            return
        lines = Lines(self.run.id, self.send, 0, LOGGER)
        lines.take(text)
        await lines.flush(last=True)

    async def _look(self) -> JobOutcome | None:
        job = self.view.jobs.get(self.name)
        self.pod = newest(self.view.pods.get(self.name, {}).values()) or self.pod
        condition = finished(job) if job else None
        if job is None or (condition and deleted_first(job, condition)):
            return await self._without_job(job)
        if condition is None and self.view.trouble is None:
            self.seen_at = anyio.current_time()
        ended = await self._ended(condition) if condition else None
        await self._note_times(_created_at(job))
        if ended:
            return ended
        if self.stop is None and self.view.trouble is None:  # the last observation can be old
            self.stop = await self._overdue(job)
        if self.stop is not None and not self.stopped:
            await self._delete(self.stop)
        return None

    async def _note_times(self, created: dt.datetime) -> None:
        began = started_at(self.pod)
        if began is None:
            return
        self.machine_time = MachineTime(created, ended_at(self.pod))
        if self.start_times is None:
            self.start_times = start_times(created, self.pod, began)
            labels = self.start_times.labels(*STAGE_LABELS) | MachineTime(created).labels
            await self.set_labels(labels)
            self.log.info("The container of Kubernetes job %s is running.", self.name)

    async def _without_job(self, job: Object | None) -> JobOutcome | None:
        """Follow a deleted job's pod to its end.

        A deletion in the background deletes the Job first and its pod later, and `--cascade=orphan` leaves
        the pod running:
        https://kubernetes.io/docs/concepts/architecture/garbage-collection/#cascading-deletion
        """
        if self._vanished is None:
            self._vanished = self._gone(job)
        vanished, pod = self._vanished, self.pod
        if pod is not None:
            await self._note_times(self.machine_time.began or _created_at(job or pod))
            is_deleted = bool(pod.get("gone") or pod["metadata"].get("deletionTimestamp"))
            if not is_over(pod) and self._pod_has_s(pod) > 0:
                if not is_deleted:
                    self.warn_limited(
                        f"The Kubernetes job {self.job_id} is gone; its pod is followed to its end."
                    )
                return None
            if not is_over(pod) and not is_deleted:
                name = pod["metadata"]["name"]
                text = f"{vanished.message} Its pod {name} runs on past its time: delete it by hand."
                return self.end_of(JobOutcome("Unseen", text))
            if job is None and not is_deleted:
                return self.end_of(self._outcome_of(by_itself(pod)))
        return self.end_of(vanished) if vanished.name == "Lost" else self.stop or vanished

    def _pod_has_s(self, pod: Object) -> float:
        limits, now = self.configuration, dt.datetime.now(dt.UTC)
        if deleted := pod["metadata"].get("deletionTimestamp"):
            end, spare_s = dt.datetime.fromisoformat(deleted), limits.grace_s + self.settings.late_s
        else:
            end, spare_s = _created_at(pod), limits.deadline_s + limits.grace_s + LATE_END_S
        return (end - now).total_seconds() + spare_s

    def _gone(self, job: Object | None) -> JobOutcome:
        """Return the outcome of a job that is gone or being deleted.

        The cluster itself deletes one ttl_s after its end:
        https://kubernetes.io/docs/concepts/workloads/controllers/ttlafterfinished/
        """
        now = anyio.current_time()
        if job is None and (self.seen_at is None or now - self.seen_at > self.configuration.ttl_s):
            text = f"The Kubernetes job {self.job_id} is gone, and how it ended is not known."
            return JobOutcome("Lost", text)
        text = f"The Kubernetes job {self.job_id} was deleted outside of Prefect before it ended."
        return JobOutcome("PodLost", text)

    def _unseen(self) -> JobOutcome | None:
        trouble, job = self.view.trouble, self.view.jobs.get(self.name)
        reason = sentence(trouble, LOOK) if trouble else ""
        if isinstance(trouble, LoginFailed) or (trouble and not transient(trouble)):
            self.warn_limited(f"{reason} The worker cannot observe the job and will try again.")
        if not trouble or job is None:
            return None
        limit_s = self.configuration.deadline_s + self.configuration.grace_s + LATE_END_S
        if (dt.datetime.now(dt.UTC) - _created_at(job)).total_seconds() <= limit_s:
            return None
        text = f"{reason} Kubernetes job {self.job_id} is past its deadline; how it ended is not known."
        return self.end_of(JobOutcome("Lost", text))

    async def _ended(self, condition: Object) -> JobOutcome:
        """Wait for the pod's end, which a separate watch can report after its job's."""
        if self.stop and self.stopped:
            return self.stop
        deadline = anyio.current_time() + self.settings.late_s
        while True:
            version = self.view.version(self.name)
            self.pod = newest(self.view.pods.get(self.name, {}).values()) or self.pod
            left_s = deadline - anyio.current_time()
            phase = self.pod["status"].get("phase") if self.pod else None
            if left_s <= 0 or phase in ("Succeeded", "Failed") or (self.pod and self.pod.get("gone")):
                return self.end_of(self._outcome_of(condition))
            await self.view.news(self.name, version, left_s)

    def _outcome_of(self, condition: Object) -> JobOutcome:
        limits = self.configuration
        return outcome_of(condition, self.pod, limits.memory_mib, limits.timeout_s)

    async def _overdue(self, job: Object) -> JobOutcome | None:
        began, now = started_at(self.pod), dt.datetime.now(dt.UTC)
        if began:
            if (now - began).total_seconds() > self.configuration.timeout_s:
                text = f"The job was ended after timeout_s {self.configuration.timeout_s}."
                return JobOutcome("TimedOut", text)
            return None
        wait = waiting(self.pod)
        waited_s = (now - _created_at(job)).total_seconds()
        if wait.kind in ("image", "never", "container"):
            return self._broken(wait, waited_s)
        self._trouble_since = None
        if self.pod is None and waited_s > self._ask_why_s:
            self._ask_why_s = 2 * waited_s
            if refused := pod_refused(await self._events()):
                return refused
        late = waited_s > self.configuration.schedule_within_s
        if late or (waited_s > self.settings.explain_s and wait.message != self._explained):
            events = await self._events()
            if late:
                return unplaced(wait, events, self.configuration.schedule_within_s)
            self._explained = wait.message
            left_s = self.configuration.schedule_within_s - waited_s
            text = "The pod has waited for %.0f s and will be cancelled in %.0f s. %s."
            level = logging.INFO if wait.kind == "placed" else logging.WARNING
            self.log.log(level, text, waited_s, left_s, explained(wait, events))
        return None

    def _broken(self, wait: Waiting, waited_s: float) -> JobOutcome | None:
        now = anyio.current_time()
        self._trouble_since = self._trouble_since or now
        has_time = now - self._trouble_since <= self.settings.pull_s
        has_time = has_time and waited_s <= self.configuration.schedule_within_s
        if wait.kind != "never" and has_time:
            if not self._explained.startswith("pull"):
                self.log.warning("%s.", wait.message.rstrip(". "))
                self._explained = "pull"
            return None
        if wait.kind == "container":  # the next job would lack the same secret or key
            name: StateName = "Unfit" if wait.message.startswith(CONFIG_ERROR) else "Crashed"
            return JobOutcome(name, f"The container could not be created: {wait.message.rstrip('. ')}.")
        text = f"The image {self.configuration.image} could not be pulled: {wait.message.rstrip('. ')}."
        return JobOutcome("ImagePullFailed", text)

    async def _events(self) -> list[Object]:
        name = self.pod["metadata"]["name"] if self.pod else self.name
        try:
            return await self.api.events(name)
        except Exception as error:
            self.log.warning("%s", sentence(error, "list events"))
            return []

    async def _delete(self, outcome: JobOutcome) -> None:
        """Ask for the job's end; the next check repeats a failed call."""
        try:
            if not await self.api.delete(self.name, self.configuration.grace_s):
                return  # the view will show that it is gone
        except Exception as error:
            self.warn_limited(f"{sentence(error, 'delete jobs')} The job is not deleted yet.")
            return
        self.stopped = True
        self.log.info("Kubernetes job %s is deleted: %s", self.job_id, outcome.message)


def _created_at(job: Object) -> dt.datetime:
    return dt.datetime.fromisoformat(job["metadata"]["creationTimestamp"])
