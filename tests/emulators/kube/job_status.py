"""A Job's status, as its controller writes it."""

from tests.emulators.kube.api_server.objects import (
    Obj,
    condition,
    find_condition,
    finished,
    leaving,
    set_condition,
    stamp,
)


def active(pod: Obj) -> bool:
    return not finished(pod) and not leaving(pod)


def failed(pod: Obj) -> bool:
    """Return whether a pod failed; one in deletion counts as failed unless it had succeeded."""
    return pod["status"]["phase"] == "Failed" or (leaving(pod) and pod["status"]["phase"] != "Succeeded")


def over(pod: Obj) -> bool:
    return failed(pod) or pod["status"]["phase"] == "Succeeded"


def ended(job: Obj) -> Obj | None:
    return find_condition(job, "Complete") or find_condition(job, "Failed")


def begin(job: Obj) -> None:
    job["status"].setdefault("startTime", stamp())
    if find_condition(job, "Suspended"):
        resumed = condition("Suspended", False, reason="JobResumed", message="Job resumed")
        set_condition(job, resumed | {"lastProbeTime": stamp()})


def suspend(job: Obj) -> None:
    status = job["status"]
    status.pop("startTime", None)
    for name in ("active", "ready", "terminating"):
        status.pop(name, None)
    new = condition("Suspended", reason="JobSuspended", message="Job suspended")
    if not find_condition(job, "Suspended"):
        set_condition(job, new | {"lastProbeTime": stamp()})


def observe(job: Obj, pods: list[Obj], new: list[Obj], verdict: tuple[str, str] | None) -> None:
    """Name ended pods that are not counted yet, and the reason of a failure."""
    status = job["status"]
    if verdict and not find_condition(job, "FailureTarget"):
        set_condition(job, probed("FailureTarget", *verdict))
    if new:
        uncounted = {
            word: [pod["metadata"]["uid"] for pod in new if failed(pod) == (word == "failed")]
            for word in ("succeeded", "failed")
        }
        status["uncountedTerminatedPods"] = {word: uids for word, uids in uncounted.items() if uids}
        numbers(status, pods)


def add_counted(job: Obj, succeeded: int, failures: int) -> None:
    """Add the counts after the uncounted pods were released."""
    status = job["status"]
    for name, count in (("succeeded", succeeded), ("failed", failures)):
        if count:
            status[name] = status.get(name, 0) + count
    status["uncountedTerminatedPods"] = {}
    if status.get("succeeded", 0) >= job["spec"]["completions"] and not status.get("active"):
        finish(job)


def settle(job: Obj, pods: list[Obj]) -> None:
    status = job["status"]
    numbers(status, pods)
    target = find_condition(job, "FailureTarget")
    waiting = status.get("active") or status.get("terminating") or any(map(pending_count, pods))
    if target and not waiting and not find_condition(job, "Failed"):
        set_condition(job, probed("Failed", target["reason"], target["message"]))


def pending_count(pod: Obj) -> bool:
    return over(pod) and "batch.kubernetes.io/job-tracking" in pod["metadata"].get("finalizers", [])


def numbers(status: Obj, pods: list[Obj]) -> None:
    live = [pod for pod in pods if active(pod)]
    status["active"] = len(live)
    if not live:
        del status["active"]
    status["ready"] = sum(bool(find_condition(pod, "Ready")) for pod in live)
    status["terminating"] = sum(leaving(pod) and not finished(pod) for pod in pods)
    status.setdefault("uncountedTerminatedPods", {})


def finish(job: Obj) -> None:
    reason, message = "CompletionsReached", "Reached expected number of succeeded pods"
    for type_ in ("SuccessCriteriaMet", "Complete"):
        set_condition(job, probed(type_, reason, message))
    job["status"] |= {"completionTime": stamp(), "ready": 0, "terminating": 0}


def probed(type_: str, reason: str, message: str) -> Obj:
    return condition(type_, reason=reason, message=message) | {"lastProbeTime": stamp()}
