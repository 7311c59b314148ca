import datetime as dt

import pytest

from infra.workers.kubernetes.follow import STAGE_LABELS
from infra.workers.kubernetes.reasons import (
    Waiting,
    explained,
    finished,
    outcome_of,
    start_times,
    unplaced,
    waiting,
)

FAILED = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "Job has reached"}
LATE = FAILED | {"reason": "DeadlineExceeded"}
COMPLETE = {"type": "Complete", "status": "True", "reason": "CompletionsReached"}
MEMORY_MIB, TIMEOUT_S = 400, 60


def pod(container=None, *, gone=False, deleted=False, node="gke-l4-1", conditions=(), **status):
    containers = [{"name": "prefect-job", "state": container}] if container else []
    metadata = {"name": "job-x", "creationTimestamp": "2026-11-22T10:00:00Z"}
    return {
        "metadata": metadata | ({"deletionTimestamp": "2026-11-22T10:01:00Z"} if deleted else {}),
        "spec": {"nodeName": node} if node else {},
        "status": {"containerStatuses": containers, "conditions": list(conditions), **status},
        "gone": gone,
    }


def terminated(code, reason="Error"):
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": "2026-11-22T10:00:30Z"}}


def disrupted(reason, message="said so"):
    return {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}


@pytest.mark.parametrize(
    ("condition", "of", "name", "words"),
    [
        (COMPLETE, pod(terminated(0, "Completed")), "Exited", "exit code 0"),
        (COMPLETE, None, "Exited", "exit code 0"),
        (
            COMPLETE,
            pod(terminated(0, "OOMKilled")),
            "OutOfMemory",
            "memory_mib 400 was not enough, exit code 0",
        ),
        (FAILED, pod(terminated(137, "OOMKilled")), "OutOfMemory", "exit code 137"),
        (FAILED, pod(terminated(9)), "Crashed", "exit code 9"),
        (LATE, pod(terminated(143)), "TimedOut", "timeout_s 60"),
        (FAILED, None, "Crashed", "without a pod: BackoffLimitExceeded: Job has reached"),
        (FAILED, pod(gone=True), "PodLost", "job-x was deleted outside of Prefect before its container ran"),
        (FAILED, pod(terminated(143), deleted=True), "PodLost", "deleted outside of Prefect while it ran"),
        (FAILED, pod(terminated(137), gone=True), "PodLost", "job-x was deleted outside"),
        (FAILED, pod(terminated(3), deleted=True), "Crashed", "exit code 3"),  # by itself, just before
        (FAILED, pod(terminated(143)), "Crashed", "exit code 143"),
        (FAILED, pod(terminated(137, "OOMKilled"), deleted=True), "OutOfMemory", "exit code 137"),
        (FAILED, pod(reason="UnexpectedAdmissionError", message="no device."), "Crashed", "code: no device."),
        (
            FAILED,
            pod(reason="Evicted", message="The node was low on resource: memory."),
            "Evicted",
            "low on res",
        ),
        (
            FAILED,
            pod(terminated(137), conditions=[disrupted("TerminationByKubelet")], reason="Evicted"),
            "Evicted",
            "gke-l4-1 ran short of a resource",
        ),
        (
            FAILED,
            pod(
                terminated(143),
                reason="Terminated",
                message="Pod was terminated in response to imminent node shutdown.",
            ),
            "Reclaimed",
            "gke-l4-1 was shut down while the pod was running: Pod was terminated",
        ),
        (
            FAILED,
            pod(conditions=[disrupted("EvictionByEvictionAPI")], gone=True),
            "Drained",
            "gke-l4-1 was drained",
        ),
        (
            FAILED,
            pod(conditions=[disrupted("DeletionByTaintManager")]),
            "NodeLost",
            "no longer answers",
        ),
        (FAILED, pod(conditions=[disrupted("DeletionByPodGC")]), "NodeLost", "gke-l4-1 no longer exists"),
        (
            FAILED,
            pod(conditions=[disrupted("PreemptionByScheduler")]),
            "Preempted",
            "higher priority: said so.",
        ),
        (FAILED, pod(reason="NodeLost", message="gone."), "NodeLost", "gone."),
    ],
)
def test_every_end_has_its_name_and_its_sentence(condition, of, name, words):
    found = outcome_of(condition, of, MEMORY_MIB, TIMEOUT_S)
    assert (found.name, words in found.message) == (name, True), found.message
    assert found.message.endswith(".") and ".." not in found.message


@pytest.mark.parametrize(
    ("of", "kind", "words"),
    [
        (None, "node", "no pod yet"),
        (pod({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off"}}), "image", "Back-off"),
        (pod({"waiting": {"reason": "InvalidImageName"}}), "never", "InvalidImageName"),
        (
            pod({"waiting": {"reason": "CreateContainerConfigError", "message": "secret"}}),
            "container",
            "secret",
        ),
        (pod({"waiting": {"reason": "ContainerCreating"}}), "placed", "gke-l4-1 creates the container: Cont"),
        (pod(), "placed", "node gke-l4-1 creates the container: it has not started"),
        (
            pod(
                conditions=[
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1"}
                ]
            ),
            "node",
            "0/1",
        ),
        (pod(node=""), "", "the pod has no node"),
    ],
)
def test_the_reason_for_which_a_pod_waits_is_found(of, kind, words):
    found = waiting(of)
    assert found.kind == kind and words in found.message


def event(reason, message=""):
    return {"reason": reason, "message": message}


SELECTOR = Waiting("node", "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.")
SHORT = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
PREEMPTION = f"{SHORT} no new claims to deallocate, preemption: 0/3 nodes are available: "
NO_HELP, NO_VICTIMS = (
    "Preemption is not helpful for scheduling",
    "No preemption victims found for incoming pod",
)
FULL = Waiting("node", SHORT)
REFUSED = "pod didn't trigger scale-up: 1 node(s) didn't match Pod's node affinity/selector, 1"
STOCK_OUT = [  # as GKE tells it
    event("TriggeredScaleUp", "pod triggered scale-up: [{l4 0->1 (max: 1)}]"),
    event("FailedScaleUp", "Node scale up in zones a associated with this pod failed: GCE out of resources."),
    event("NotTriggerScaleUp", f"{REFUSED} in backoff after failed scale-up"),
]
AT_ITS_LIMIT = event("NotTriggerScaleUp", f"{REFUSED} max node group size reached")


@pytest.mark.parametrize(
    ("found", "events", "name", "words"),
    [
        (SELECTOR, [], "Unschedulable", "didn't match"),
        (SELECTOR, [event("TriggeredScaleUp", "l4 0->1")], "NoCapacity", "TriggeredScaleUp: l4 0->1"),
        (SELECTOR, [event("FailedScaleUp", "out of resources")], "NoCapacity", "out of resources"),
        (SELECTOR, [event("NotTriggerScaleUp", "no pool")], "Unschedulable", "no pool"),
        (SELECTOR, STOCK_OUT, "NoCapacity", "failed: GCE out of resources. NotTriggerScaleUp: pod didn't"),
        (SELECTOR, [*STOCK_OUT, event("FailedScheduling")], "NoCapacity", "GCE out of resources"),
        (SELECTOR, STOCK_OUT[-1:], "NoCapacity", "1 in backoff after failed scale-up"),  # of another pod
        (FULL, [AT_ITS_LIMIT], "NoCapacity", "1 max node group size reached"),
        (FULL, [AT_ITS_LIMIT, event("FailedScheduling")], "NoCapacity", "1 max node group size reached"),
        (SELECTOR, [AT_ITS_LIMIT], "Unschedulable", "1 max node group size reached"),  # of another pool
        (SELECTOR, [*STOCK_OUT, AT_ITS_LIMIT], "NoCapacity", "1 max node group size reached"),
        (
            FULL,
            [event("NotTriggerScaleUp", "no pool"), event("FailedScheduling")],
            "Unschedulable",
            "no pool",
        ),
        (FULL, [event("FailedScheduling")], "NoCapacity", "Insufficient"),
        (Waiting("node", f"{PREEMPTION}3 {NO_VICTIMS}."), [], "NoCapacity", "No preemption victims"),
        (Waiting("node", f"{PREEMPTION}1 {NO_VICTIMS}, 2 {NO_HELP}."), [], "NoCapacity", "Insufficient"),
        (Waiting("node", f"{PREEMPTION}3 {NO_HELP}."), [], "Unschedulable", "Insufficient nvidia.com/gpu"),
        (
            Waiting("node", f"{PREEMPTION}3 {NO_HELP}."),
            [event("TriggeredScaleUp", "l4 0->1")],
            "NoCapacity",
            "l4 0->1",
        ),
        (
            Waiting("placed", "node n creates the container: ContainerCreating"),
            [event("Pulling", "image"), event("FailedMount", "no volume")],
            "Crashed",
            "FailedMount: no volume",
        ),
        (
            Waiting("node", "no pod"),
            [event("FailedCreate", "exceeded quota: gpus")],
            "NoCapacity",
            "exceeded quota",
        ),
        (
            Waiting("node", "no pod"),
            [event("FailedCreate", "Internal error occurred: failed calling webhook")],
            "PodRefused",
            "failed calling webhook",
        ),
    ],
)
def test_a_pod_that_waited_too_long_is_classified_by_whether_a_machine_could_come(found, events, name, words):
    ended = unplaced(found, events, 1800)
    assert ended.name == name and words in ended.message and "schedule_within_s 1800" in ended.message
    assert words in explained(found, events)


def test_only_a_condition_that_is_true_ends_a_job():
    assert finished({"status": {}}) is None
    assert finished({"status": {"conditions": [FAILED | {"status": "False"}]}}) is None
    assert finished({"status": {"conditions": [{"type": "FailureTarget", "status": "True"}]}}) is None
    assert finished({"status": {"conditions": [FAILED]}}) == FAILED


def test_the_start_time_of_a_container_is_split_into_scheduling_and_starting():
    created = dt.datetime(2026, 11, 22, 10, tzinfo=dt.UTC)
    began = created + dt.timedelta(seconds=30)
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-22T10:00:20Z"}
    times = start_times(created, pod(terminated(0), conditions=[placed]), began)
    assert times.labels(*STAGE_LABELS) == {
        "kubernetes.unscheduled_s": 20.0,
        "kubernetes.starting_s": 10.0,
        "gridbench.queue_s": 20.0,
        "gridbench.pull_s": 10.0,
    }
    without = start_times(created, pod(), began).labels(*STAGE_LABELS)
    assert (without["kubernetes.unscheduled_s"], without["kubernetes.starting_s"]) == (30.0, 0.0)
