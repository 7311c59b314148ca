"""Why a job waits, and how it ended, from its pods and events.

The matched texts are those of Kubernetes 1.36; a comment marks GKE's own.
"""

import datetime as dt
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from infra.workers.base.outcome import ENDED_BY_OTHERS, JobOutcome, StartTimes, StateName
from infra.workers.kubernetes.errors import QUOTA

Object = dict[str, Any]

CONTAINER = "prefect-job"
# https://kubernetes.io/docs/concepts/containers/images/#imagepullbackoff and the kubelet's images package
PULLING = ("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError")
NEVER_PULLED = ("InvalidImageName", "ErrImageNeverPull")
CONFIG_ERROR = "CreateContainerConfigError"  # it names a secret or a config map that the namespace lacks
BROKEN = (CONFIG_ERROR, "CreateContainerError", "RunContainerError")
# https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
DISRUPTIONS: dict[str, tuple[StateName, str]] = {
    "PreemptionByScheduler": ("Preempted", "The pod was preempted by one with a higher priority"),
    "DeletionByTaintManager": ("NodeLost", "The node {node} no longer answers"),
    "DeletionByPodGC": ("NodeLost", "The node {node} no longer exists"),
    "EvictionByEvictionAPI": (
        "Drained",
        "The node {node} was drained, or the pod was evicted through the API",
    ),
    "TerminationByKubelet": ("Evicted", "The node {node} ran short of a resource and ended the pod"),
}
# Of a node that shuts down: https://docs.cloud.google.com/kubernetes-engine/docs/concepts/spot-vms
SHUTDOWN = ("Terminated", "NodeShutdown", "Shutdown")
UNSCHEDULABLE = "Unschedulable"
SCALING = ("TriggeredScaleUp",)  # the cluster autoscaler's events
NOT_SCALING = ("NotTriggerScaleUp", "FailedScaleUp")
# Pools that it skips, whether they fit or not: kubernetes/autoscaler, core/scaleup/orchestrator. Users saw
# the first after a stock-out and a used-up quota (2i2c-org/infrastructure #2185, cortexlabs/cortex #1685),
# the second when all nodes of a pool were taken (kubernetes/autoscaler #5692).
BACKOFF = "in backoff after failed scale-up"
AT_ITS_LIMIT = re.compile(r"\bmax [\w ,]*reached\b")
# Of a pod that the API server refuses permanently: a service account, a priority class or a limit range of
# the
# namespace, a Pod Security Standard. All other messages, such as about a webhook without an answer, are
# temporary.
POD_REFUSED = re.compile(r"is forbidden|is invalid|no PriorityClass|not found")
NOT_READY = ("FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox")  # the kubelet's
OOM = "OOMKilled"
# The scheduler's last sentence; NO_HELP of a request larger than a whole node since 1.34: kubernetes #131345.
NO_VICTIMS, NO_HELP = "No preemption victims found", "Preemption is not helpful for scheduling"


@dataclass(frozen=True)
class Waiting:
    """Why a job's container does not run yet; `message` is the cluster's own text.

    `kind` is "node", "image", "never" for an image that can't come, "container", "placed" for a node that
    still prepares it, or "".
    """

    kind: str
    message: str


def container_of(pod: Object) -> Object:
    """Return the measuring container's status; empty before there is one."""
    statuses = pod["status"].get("containerStatuses", ())
    return next((status for status in statuses if status["name"] == CONTAINER), {})


def newest(pods: Iterable[Object]) -> Object | None:
    return max(pods, key=lambda pod: pod["metadata"].get("creationTimestamp", ""), default=None)


def started_at(pod: Object | None) -> dt.datetime | None:
    """Return None if the container never ran, for which the kubelet writes 1970."""
    state = container_of(pod).get("state", {}) if pod else {}
    text = (state.get("running") or state.get("terminated") or {}).get("startedAt")
    began = dt.datetime.fromisoformat(text) if text else None
    return began if began and began.timestamp() else None


def start_times(created: dt.datetime, pod: Object | None, began: dt.datetime) -> StartTimes:
    """Return a job's times without a node, and with one until its container ran."""
    placed = began
    for condition in pod["status"].get("conditions", ()) if pod else ():
        is_met = condition["type"] == "PodScheduled" and condition["status"] == "True"
        if is_met and (text := condition.get("lastTransitionTime")):
            placed = dt.datetime.fromisoformat(text)
    placed = min(max(placed, created), max(began, created))
    return StartTimes((placed - created).total_seconds(), max(0.0, (began - placed).total_seconds()))


def waiting(pod: Object | None) -> Waiting:
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
    if node := pod["spec"].get("nodeName"):
        return Waiting("placed", f"node {node} creates the container: {reason or 'it has not started'}")
    return Waiting("", reason or "the pod has no node yet")


def explained(wait: Waiting, events: list[Object]) -> str:
    telling = _of(events, *SCALING, *NOT_SCALING, *NOT_READY, "FailedCreate")[-1:]
    if telling and BACKOFF in telling[0].get("message", ""):
        telling = _of(events, "FailedScaleUp")[-1:] + telling  # only these name the reason
    said = [f"{event['reason']}: {event.get('message', '').rstrip('. ')}" for event in telling]
    return ". ".join([wait.message.rstrip(". "), *said])


def unplaced(wait: Waiting, events: list[Object], waited_s: float) -> JobOutcome:
    why = explained(wait, events)
    if wait.kind == "placed":
        text = f"The container did not start within schedule_within_s {waited_s:.0f}: {why}."
        return JobOutcome("Crashed", text)
    last: Object = (_of(events, *SCALING, *NOT_SCALING) or [{}])[-1]
    said = last.get("message", "")
    creating = _of(events, "FailedCreate")[-1:]
    if creating and QUOTA not in creating[0].get("message", ""):
        return JobOutcome("PodRefused", f"No pod was made within schedule_within_s {waited_s:.0f}: {why}.")
    tried = bool(creating or _of(events, *SCALING, "FailedScaleUp"))
    # The nodes of a pool at its limit exist: the scheduler has stated whether they fit.
    refused = last.get("reason") == "NotTriggerScaleUp" and not AT_ITS_LIMIT.search(said)
    # A node fits once other pods leave it, unless it is too small for the pod.
    full = "Insufficient" in wait.message and (NO_VICTIMS in wait.message or NO_HELP not in wait.message)
    could_come = BACKOFF in said or ((tried or full) and not refused)
    name: StateName = "NoCapacity" if could_come else "Unschedulable"
    return JobOutcome(name, f"No node was found for the pod within schedule_within_s {waited_s:.0f}: {why}.")


def pod_refused(events: list[Object]) -> JobOutcome | None:
    """Return the outcome if the API server refuses a job's pod permanently.

    A used-up quota does not count: other pods can leave it.
    """
    message = "".join(event.get("message", "") for event in _of(events, "FailedCreate")[-1:])
    if not POD_REFUSED.search(message) or QUOTA in message:
        return None
    reason = message.removeprefix("Error creating: ").rstrip(". ")
    return JobOutcome("PodRefused", f"The cluster refuses the job's pod: {reason}.")


def ended_at(pod: Object | None) -> dt.datetime | None:
    """Return None if the container did not end, or never ran."""
    state = container_of(pod).get("state", {}) if pod else {}
    text = (state.get("terminated") or {}).get("finishedAt")
    ended = dt.datetime.fromisoformat(text) if text else None
    return ended if ended and ended.timestamp() else None


def is_over(pod: Object | None) -> bool:
    return pod is None or bool(pod.get("gone")) or pod["status"].get("phase") in ("Succeeded", "Failed")


def by_itself(pod: Object) -> Object:
    return {"type": "Complete" if pod["status"].get("phase") == "Succeeded" else "Failed", "status": "True"}


def _of(events: list[Object], *reasons: str) -> list[Object]:
    return [event for event in events if event.get("reason") in reasons]


def finished(job: Object) -> Object | None:
    for condition in job["status"].get("conditions", ()):
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return dict(condition)
    return None


def deleted_first(job: Object, condition: Object) -> bool:
    deleted = job["metadata"].get("deletionTimestamp")
    return bool(deleted) and deleted <= condition.get("lastTransitionTime", deleted)


def outcome_of(condition: Object, pod: Object | None, memory_mib: int, timeout_s: int) -> JobOutcome:
    state = container_of(pod).get("state") if pod else None
    terminated = (state or {}).get("terminated") or {}
    code = terminated.get("exitCode")
    if condition["type"] == "Complete" and code in (0, None) and terminated.get("reason") != OOM:
        return JobOutcome("Exited", "The container ended with exit code 0.", 0)
    if terminated.get("reason") == OOM:
        limit = f"memory_mib {memory_mib} was not enough, exit code {code}"
        return JobOutcome("OutOfMemory", f"The container ran out of memory ({limit}).", code)
    if condition.get("reason") == "DeadlineExceeded":
        text = f"Kubernetes stopped the job after its deadline, timeout_s {timeout_s}."
        return JobOutcome("TimedOut", text, code)
    if pod is None:
        return JobOutcome("Crashed", f"The job ended without a pod: {_words(condition)}.")
    return _disrupted(pod) or _deleted(pod, code) or _crashed(condition, pod, code)


def _disrupted(pod: Object) -> JobOutcome | None:
    status, node = pod["status"], pod["spec"].get("nodeName", "?")
    message = status.get("message", "").rstrip(". ")
    conditions = [c for c in status.get("conditions", ()) if c["type"] == "DisruptionTarget"]
    disruption = next((condition for condition in conditions if condition["status"] == "True"), None)
    shut_down = disruption and "node shutdown" in disruption.get("message", "").lower()
    if status.get("reason") in SHUTDOWN or shut_down:
        text = f"The node {node} was shut down while the pod was running: {message or 'no message'}."
        return JobOutcome("Reclaimed", text)
    if disruption and disruption.get("reason") in DISRUPTIONS:
        name, text = DISRUPTIONS[disruption["reason"]]
        detail = message or disruption.get("message", "").rstrip(". ")
        return JobOutcome(name, f"{text.format(node=node)}: {detail}.")
    if status.get("reason") == "Evicted":
        return JobOutcome("Evicted", f"The node {node} evicted the pod: {message}.")
    if status.get("reason") == "NodeLost":
        return JobOutcome("NodeLost", f"The node {node} no longer answers: {message}.")
    return None


def _deleted(pod: Object, code: int | None) -> JobOutcome | None:
    """Return None if the deleted pod had ended by itself."""
    deleted = pod.get("gone") or pod["metadata"].get("deletionTimestamp")
    if not deleted or code not in ENDED_BY_OTHERS:
        return None
    when = "while it ran" if started_at(pod) else "before its container ran"
    name = pod["metadata"]["name"]
    return JobOutcome("PodLost", f"The pod {name} was deleted outside of Prefect {when}.", code)


def _crashed(condition: Object, pod: Object, code: int | None) -> JobOutcome:
    if code is not None:
        return JobOutcome("Crashed", f"The container ended with exit code {code}.", code)
    message = pod["status"].get("message") or pod["status"].get("reason") or _words(condition)
    return JobOutcome("Crashed", f"The pod ended without an exit code: {message.rstrip('. ')}.")


def _words(condition: Object) -> str:
    message = f"{condition.get('reason', '')}: {condition.get('message', '')}"
    return message.strip(": .") or "the cluster gives no reason"
