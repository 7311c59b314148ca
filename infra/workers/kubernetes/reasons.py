"""What a job, its pods and its events mean: why it waits, and how it ended. Pure: nothing is called here.

The words that are looked for are those of Kubernetes 1.36; where GKE has its own, that is noted.
"""

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from infra.workers.base.outcome import JobOutcome

Object = dict[str, Any]

CONTAINER = "prefect-job"
# https://kubernetes.io/docs/concepts/containers/images/#imagepullbackoff and the kubelet's images package
PULLING = ("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError")
NEVER_PULLED = ("InvalidImageName", "ErrImageNeverPull")
BROKEN = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
# https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
DISRUPTIONS = {
    "PreemptionByScheduler": ("Preempted", "The pod gave way to one with a higher priority"),
    "DeletionByTaintManager": ("NodeLost", "The node {node} does not answer any more"),
    "DeletionByPodGC": ("NodeLost", "The node {node} is gone"),
    "EvictionByEvictionAPI": ("Drained", "The node {node} was drained, or the pod was evicted by somebody"),
    "TerminationByKubelet": ("Evicted", "The node {node} ran short of something and ended the pod"),
}
# Of a node that shuts down: https://docs.cloud.google.com/kubernetes-engine/docs/concepts/spot-vms
SHUTDOWN = ("Terminated", "NodeShutdown", "Shutdown")
UNSCHEDULABLE = "Unschedulable"
SCALING = ("TriggeredScaleUp",)  # the cluster autoscaler's events
NOT_SCALING = ("NotTriggerScaleUp", "FailedScaleUp")
OOM = "OOMKilled"


@dataclass(frozen=True)
class Waiting:
    """Why a job's container does not run yet.

    Attributes:
        kind: of the trouble: "node", "image", "never" for an image that can't come, "container", or "".
        message: the cluster's own words.
    """

    kind: str
    message: str


def container_of(pod: Object) -> Object:
    """The status of the container that measures; empty before it has one."""
    found = (status for status in pod["status"].get("containerStatuses", ()) if status["name"] == CONTAINER)
    return next(found, {})


def newest(pods: Iterable[Object]) -> Object | None:
    """A job's pod: it has one, unless somebody makes a second one behind our back."""
    return max(pods, key=lambda pod: pod["metadata"].get("creationTimestamp", ""), default=None)


def started_at(pod: Object | None) -> dt.datetime | None:
    """When the container began to run; None where it never did: the kubelet says 1970 of such a one."""
    state = container_of(pod).get("state", {}) if pod else {}
    text = (state.get("running") or state.get("terminated") or {}).get("startedAt")
    began = dt.datetime.fromisoformat(text) if text else None
    return began if began and began.timestamp() else None


def stages_s(created: dt.datetime, pod: Object | None, began: dt.datetime) -> dict[str, float]:
    """Seconds of a job without a node, and with one until its container ran, as labels of its run."""
    conditions = pod["status"].get("conditions", ()) if pod else ()
    placed = next(
        (
            dt.datetime.fromisoformat(of["lastTransitionTime"])
            for of in conditions
            if of["type"] == "PodScheduled" and of["status"] == "True" and of.get("lastTransitionTime")
        ),
        began,
    )
    placed = min(max(placed, created), max(began, created))
    return {
        "kubernetes.unscheduled_s": (placed - created).total_seconds(),
        "kubernetes.starting_s": max(0.0, (began - placed).total_seconds()),
    }


def waiting(pod: Object | None) -> Waiting:
    """Why a job's container does not run yet."""
    if pod is None:
        return Waiting("node", "the job has no pod yet")
    state = container_of(pod).get("state", {}).get("waiting") or {}
    reason, message = state.get("reason", ""), state.get("message", "")
    for kind, reasons in (("image", PULLING), ("never", NEVER_PULLED), ("container", BROKEN)):
        if reason in reasons:
            return Waiting(kind, f"{reason}: {message}" if message else reason)
    for condition in pod["status"].get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition.get("reason") == UNSCHEDULABLE:
            return Waiting("node", condition.get("message", UNSCHEDULABLE))
    return Waiting("", reason or "no node has taken the pod yet")


def explained(found: Waiting, events: list[Object]) -> str:
    """Why it waits, with what the autoscaler or a quota says of it."""
    wanted = (*SCALING, *NOT_SCALING, "FailedCreate")
    said = [event for event in events if event.get("reason") in wanted]
    last = f"{said[-1]['reason']}: {said[-1].get('message', '')}" if said else ""
    return f"{found.message.rstrip('. ')}. {last}".strip().rstrip(".")


def unplaced(found: Waiting, events: list[Object], waited_s: float) -> JobOutcome:
    """The ending of a job that no node has taken for too long."""
    reasons = [event.get("reason") for event in events]
    scaled = any(reason in SCALING for reason in reasons)
    full = "Insufficient" in found.message or any(
        reason in ("FailedScaleUp", "FailedCreate") for reason in reasons
    )
    refused = bool(reasons) and reasons[-1] == "NotTriggerScaleUp"
    name = "NoCapacity" if (scaled or full) and not refused else "Unschedulable"
    return JobOutcome(
        name, f"No node took the pod within schedule_within_s {waited_s:.0f}: {explained(found, events)}."
    )


def finished(job: Object) -> Object | None:
    """The condition with which a job has ended; None while it goes on."""
    for condition in job["status"].get("conditions", ()):
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return dict(condition)
    return None


def deleted_first(job: Object, condition: Object) -> bool:
    """Whether a job was deleted while it went on, and ended of that."""
    deleted = job["metadata"].get("deletionTimestamp")
    return bool(deleted) and deleted <= condition.get("lastTransitionTime", deleted)


def ending(condition: Object, pod: Object | None, memory_mib: int, timeout_s: int) -> JobOutcome:
    """How a job ended, from the condition that ended it and from its pod."""
    terminated = _terminated(pod)
    code = terminated.get("exitCode")
    if condition["type"] == "Complete" and code in (0, None) and terminated.get("reason") != OOM:
        return JobOutcome("Exited", "The container ended with exit code 0.", 0)
    if terminated.get("reason") == OOM:
        limit = f"memory_mib {memory_mib} was not enough, exit code {code}"
        return JobOutcome("OutOfMemory", f"The container ran out of memory ({limit}).", code)
    if condition.get("reason") == "DeadlineExceeded":
        return JobOutcome(
            "TimedOut", f"Kubernetes stopped the job after its deadline, timeout_s {timeout_s}.", code
        )
    if pod is None:
        return JobOutcome("Crashed", f"The job ended without a pod: {_words(condition)}.")
    return _disrupted(pod) or _crashed(condition, pod, code)


def _terminated(pod: Object | None) -> Object:
    status = container_of(pod) if pod else {}
    return dict((status.get("state") or {}).get("terminated") or {})


def _disrupted(pod: Object) -> JobOutcome | None:
    """The ending of a job whose pod the cluster has ended, and not its container itself."""
    status, node = pod["status"], pod["spec"].get("nodeName", "?")
    said = status.get("message", "").rstrip(". ")
    disruption = next(
        (
            of
            for of in status.get("conditions", ())
            if of["type"] == "DisruptionTarget" and of["status"] == "True"
        ),
        None,
    )
    if status.get("reason") in SHUTDOWN or (
        disruption and "node shutdown" in disruption.get("message", "").lower()
    ):
        return JobOutcome(
            "Reclaimed", f"The node {node} was shut down under the pod: {said or 'no words of it'}."
        )
    if disruption and disruption.get("reason") in DISRUPTIONS:
        name, text = DISRUPTIONS[disruption["reason"]]
        why = said or disruption.get("message", "").rstrip(". ")
        return JobOutcome(name, f"{text.format(node=node)}: {why}.")
    if status.get("reason") == "Evicted":
        return JobOutcome("Evicted", f"The node {node} evicted the pod: {said}.")
    if status.get("reason") == "NodeLost":
        return JobOutcome("NodeLost", f"The node {node} does not answer any more: {said}.")
    return None


def _crashed(condition: Object, pod: Object, code: int | None) -> JobOutcome:
    if code is not None:
        return JobOutcome("Crashed", f"The container ended with exit code {code}.", code)
    if pod.get("gone") or pod["metadata"].get("deletionTimestamp"):
        return JobOutcome(
            "PodLost", f"The pod {pod['metadata']['name']} was deleted from outside while it ran."
        )
    said = pod["status"].get("message") or pod["status"].get("reason") or _words(condition)
    return JobOutcome("Crashed", f"The pod ended without an exit code: {said.rstrip('. ')}.")


def _words(condition: Object) -> str:
    said = f"{condition.get('reason', '')}: {condition.get('message', '')}"
    return said.strip(": .") or "the cluster gives no reason"
