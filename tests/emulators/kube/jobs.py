"""The Job controller: make a Job's pods, count their ends, and end the Job.

Status changes come in the order that a watch on Kubernetes 1.36.2 showed.
"""

import asyncio
import copy
from typing import TYPE_CHECKING

from tests.emulators.kube import job_status
from tests.emulators.kube.api_server.objects import (
    Key,
    Obj,
    Refused,
    find_condition,
    finished,
    generated,
    key_of,
    leaving,
)
from tests.emulators.kube.api_server.store import Change
from tests.emulators.kube.garbage import delete_job, delete_pod

if TYPE_CHECKING:
    from tests.emulators.kube.cluster import Cluster

TRACKING = "batch.kubernetes.io/job-tracking"
COMPONENT = "job-controller"
LONGEST_BACKOFF = 60  # times the first: 600 s after 10 s. Source: MaxJobPodFailureBackOff


class JobController:
    """Level-triggered: every change of a Job or its pods calls `reconcile`."""

    def __init__(self, cluster: "Cluster") -> None:
        self.cluster, self.store = cluster, cluster.store
        self.started: dict[str, float] = {}  # uid → the loop's time at which the Job began
        self.not_before: dict[str, float] = {}  # uid → no new pod before
        self.timers: dict[str, asyncio.TimerHandle] = {}

    def on_change(self, change: Change) -> None:
        obj = change.object
        if change.plural == "jobs":
            self.wake(key_of(obj), obj["metadata"]["uid"])
        if change.plural == "pods":
            for owner in obj["metadata"].get("ownerReferences") or []:
                self.wake((obj["metadata"]["namespace"], owner["name"]), owner["uid"])

    def wake(self, key: Key, uid: str, after_s: float = 0.0) -> None:
        """Schedule `reconcile`, soon or after a while; the shortest delay counts."""
        if not after_s:
            self.cluster.soon(f"job {uid}", lambda: self.reconcile(key, uid))
            return
        timer, when = self.timers.get(uid), asyncio.get_running_loop().time() + after_s
        if timer and timer.when() <= when:
            return
        if timer:
            timer.cancel()

        def now() -> None:
            del self.timers[uid]
            self.reconcile(key, uid)

        self.timers[uid] = self.cluster.later(after_s, now)

    def reconcile(self, key: Key, uid: str) -> None:
        job = self.store.find("jobs", key)
        if job is None or job["metadata"]["uid"] != uid:
            for pod in self.store.pods_of(uid):
                self.store.update("pods", key_of(pod), release)
            return
        if job_status.ended(job):
            for pod in self.store.pods_of(uid):
                self.store.update("pods", key_of(pod), release)
            self.expire(key, job)
            return
        if job["spec"]["suspend"]:
            self.suspend(key, job)
            return
        self.begin(key, uid, job)
        verdict = self.verdict(job)
        pods = self.store.pods_of(uid)
        if verdict:
            self.delete_active(job, pods)
        self.count(key, uid, verdict)
        job = self.store.get("jobs", key)
        if not verdict and not leaving(job):
            self.create_missing(key, job)
        self.settle(key, uid)

    def begin(self, key: Key, uid: str, job: Obj) -> None:
        """Set the start time, from which the deadline counts: the Job's creation, not its first pod's start."""
        loop_time = asyncio.get_running_loop().time()
        if "startTime" not in job["status"] or uid not in self.started:
            self.started[uid] = loop_time
            self.store.update("jobs", key, job_status.begin)

    def deadline_s(self, job: Obj) -> float:
        return float(job["spec"]["activeDeadlineSeconds"]) * self.cluster.pace.deadline_factor

    def verdict(self, job: Obj) -> tuple[str, str] | None:
        if target := find_condition(job, "FailureTarget"):
            return target["reason"], target["message"]
        uid = job["metadata"]["uid"]
        new = sum(job_status.failed(pod) for pod in self.store.pods_of(uid) if tracked(pod))
        if job["status"].get("failed", 0) + new > job["spec"]["backoffLimit"]:
            return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        age_s = asyncio.get_running_loop().time() - self.started[uid]
        if "activeDeadlineSeconds" in job["spec"]:
            left_s = self.deadline_s(job) - age_s
            if left_s <= 0:
                return "DeadlineExceeded", "Job was active longer than specified deadline"
            self.wake(key_of(job), uid, left_s)
        return None

    def delete_active(self, job: Obj, pods: list[Obj]) -> None:
        for pod in pods:
            if not finished(pod) and not leaving(pod):
                name = pod["metadata"]["name"]
                self.cluster.event(job, "SuccessfulDelete", f"Deleted pod: {name}", COMPONENT)
                delete_pod(self.store, key_of(pod))

    def count(self, key: Key, uid: str, verdict: tuple[str, str] | None) -> None:
        """Count ended pods: name as uncounted, release, count, so that none is lost."""
        new = [pod for pod in self.store.pods_of(uid) if tracked(pod) and job_status.over(pod)]
        pods = self.store.pods_of(uid)
        self.store.update("jobs", key, lambda job: job_status.observe(job, pods, new, verdict))
        if not new:
            return
        failed = sum(job_status.failed(pod) for pod in new)
        if failed:
            self.put_off(uid, self.store.get("jobs", key)["status"].get("failed", 0) + failed)
        for pod in new:
            self.store.update("pods", key_of(pod), release)
        self.store.update("jobs", key, lambda job: job_status.add_counted(job, len(new) - failed, failed))

    def put_off(self, uid: str, failed: int) -> None:
        delay_s = self.cluster.pace.job_backoff_s * min(2 ** (failed - 1), LONGEST_BACKOFF)
        self.not_before[uid] = asyncio.get_running_loop().time() + delay_s

    def create_missing(self, key: Key, job: Obj) -> None:
        """Create missing pods, unless the last failure was too recent."""
        uid, spec, status = job["metadata"]["uid"], job["spec"], job["status"]
        active = [pod for pod in self.store.pods_of(uid) if job_status.active(pod)]
        left = spec["completions"] - status.get("succeeded", 0)
        missing = min(spec["parallelism"], left) - len(active)
        wait_s = self.not_before.get(uid, 0.0) - asyncio.get_running_loop().time()
        if missing > 0 and wait_s > 0:
            self.wake(key, uid, wait_s)
            return
        for _ in range(missing):
            if not self.create_pod(job):
                self.wake(key, uid, self.cluster.pace.create_retry_s)
                return

    def create_pod(self, job: Obj) -> bool:
        metadata, template = job["metadata"], copy.deepcopy(job["spec"]["template"])
        base = metadata["name"] + "-"
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "uid": metadata["uid"]}
        template["metadata"] |= {
            "name": generated(base),
            "generateName": base,
            "namespace": metadata["namespace"],
            "finalizers": [TRACKING],
            "ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": True}],
        }
        try:
            pod = self.cluster.create("pods", metadata["namespace"], template)
        except Refused as refused:
            self.cluster.event(job, "FailedCreate", f"Error creating: {refused}", COMPONENT, warning=True)
            return False
        said = f"Created pod: {pod['metadata']['name']}"
        self.cluster.event(job, "SuccessfulCreate", said, COMPONENT)
        return True

    def settle(self, key: Key, uid: str) -> None:
        pods = self.store.pods_of(uid)
        before = self.store.get("jobs", key)
        after = self.store.update("jobs", key, lambda job: job_status.settle(job, pods)) or before
        if end := job_status.ended(after):
            if end["type"] == "Complete":
                self.cluster.event(after, "Completed", "Job completed", COMPONENT)
            else:
                self.cluster.event(after, end["reason"], end["message"], COMPONENT, warning=True)

    def suspend(self, key: Key, job: Obj) -> None:
        uid = job["metadata"]["uid"]
        self.delete_active(job, self.store.pods_of(uid))
        self.count(key, uid, None)
        self.started.pop(uid, None)
        if not find_condition(job, "Suspended"):
            self.cluster.event(job, "Suspended", "Job suspended", COMPONENT)
        self.store.update("jobs", key, job_status.suspend)

    def expire(self, key: Key, job: Obj) -> None:
        if (ttl_s := job["spec"].get("ttlSecondsAfterFinished")) is None or leaving(job):
            return
        uid = job["metadata"]["uid"]

        def end() -> None:
            found = self.store.find("jobs", key)
            if found and found["metadata"]["uid"] == uid:
                delete_job(self.store, key, "Foreground")

        self.cluster.soon(f"ttl {uid}", end, ttl_s * self.cluster.pace.ttl_factor)


def tracked(pod: Obj) -> bool:
    return TRACKING in pod["metadata"].get("finalizers", [])


def release(pod: Obj) -> None:
    metadata = pod["metadata"]
    metadata["finalizers"] = [name for name in metadata.get("finalizers", []) if name != TRACKING]
    if not metadata["finalizers"]:
        del metadata["finalizers"]
