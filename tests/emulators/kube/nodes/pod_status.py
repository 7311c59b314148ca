"""A pod's status, as its kubelet writes it."""

import hashlib
from collections.abc import Callable

from tests.emulators.kube.api_server.objects import Obj, condition, set_condition, stamp
from tests.emulators.kube.nodes.ends import Verdict
from tests.emulators.kube.nodes.runner import Ended

Change = Callable[[Obj], None]
NODE_IP = "127.0.0.1"  # where pods on the host's network really are
EPOCH = "1970-01-01T00:00:00Z"


def creating(pod: Obj, container: Obj) -> None:
    status = pod["status"]
    status.setdefault("startTime", stamp())
    status |= {"hostIP": NODE_IP, "hostIPs": [{"ip": NODE_IP}]}
    set_condition(pod, condition("PodReadyToStartContainers", False))
    set_condition(pod, condition("Initialized"))
    unready(pod, "ContainersNotReady", f"containers with unready status: [{container['name']}]")
    waiting(pod, container, "ContainerCreating", "")


def unready(pod: Obj, reason: str, message: str = "") -> None:
    more = {"reason": reason} | ({"message": message} if message else {})
    for type_ in ("Ready", "ContainersReady"):
        set_condition(pod, condition(type_, False, **more))


def container_status(container: Obj, state: Obj, restarts: int = 0, last: Obj | None = None) -> list[Obj]:
    running = "running" in state
    image = container["image"]
    status = {
        "name": container["name"],
        "image": image,
        "imageID": "" if "waiting" in state else f"sha256:{hashlib.sha256(image.encode()).hexdigest()}",
        "ready": running,
        "started": running,
        "restartCount": restarts,
        "state": state,
        "lastState": last or {},
    }
    return [status]


def waiting(pod: Obj, container: Obj, reason: str, message: str) -> None:
    said = {"reason": reason} | ({"message": message} if message else {})
    pod["status"]["containerStatuses"] = container_status(container, {"waiting": said})


def running(pod: Obj, container: Obj, restarts: int) -> None:
    """Set running; without a readiness probe the pod is ready at once."""
    old = pod["status"]["containerStatuses"][0]
    state, last = {"running": {"startedAt": stamp()}}, old["lastState"]
    pod["status"] |= {"phase": "Running", "podIP": NODE_IP, "podIPs": [{"ip": NODE_IP}]}
    pod["status"]["containerStatuses"] = container_status(container, state, restarts, last)
    for type_ in ("PodReadyToStartContainers", "Ready", "ContainersReady"):
        set_condition(pod, condition(type_))


def terminated(pod: Obj, ended: Ended, reason: str) -> Obj:
    state = pod["status"]["containerStatuses"][0]["state"]
    started = state.get("running", {}).get("startedAt", stamp())
    identity = f"containerd://{hashlib.sha256(pod['metadata']['uid'].encode()).hexdigest()}"
    times = {"startedAt": started, "finishedAt": stamp(), "containerID": identity}
    return {"terminated": {"exitCode": ended.exit_code, "reason": reason, **times}}


def ended(pod: Obj, container: Obj, how: Ended, verdict: Verdict | None) -> None:
    """Set the end of the container; report a kill inside it that spared its first process."""
    verdict = verdict or Verdict()
    reason = "OOMKilled" if how.out_of_memory else "Error" if how.exit_code else "Completed"
    restarts = pod["status"]["containerStatuses"][0]["restartCount"]
    state = terminated(pod, how, verdict.container_reason or reason)
    pod["status"]["containerStatuses"] = container_status(container, state, restarts)
    failed = bool(how.exit_code or verdict.reason)
    close(pod, failed, verdict)


def close(pod: Obj, failed: bool, verdict: Verdict) -> None:
    pod["status"]["phase"] = "Failed" if failed else "Succeeded"
    if verdict.reason:
        pod["status"] |= {"reason": verdict.reason, "message": verdict.message}
    unready(pod, "PodFailed" if failed else "PodCompleted")
    set_condition(pod, condition("PodReadyToStartContainers", False))


def backing_off(pod: Obj, container: Obj, how: Ended, message: str) -> None:
    reason = "OOMKilled" if how.out_of_memory else "Error" if how.exit_code else "Completed"
    restarts = pod["status"]["containerStatuses"][0]["restartCount"] + 1
    last = terminated(pod, how, reason)
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
    pod["status"]["containerStatuses"] = container_status(container, state, restarts, last)
    unready(pod, "ContainersNotReady", f"containers with unready status: [{container['name']}]")


def not_started(pod: Obj, container: Obj, message: str, restarts: int) -> None:
    said = {"exitCode": 128, "reason": "StartError", "message": message}
    state = {"terminated": said | {"startedAt": EPOCH, "finishedAt": stamp()}}
    pod["status"]["containerStatuses"] = container_status(container, state, restarts)
    close(pod, True, Verdict())


def never_ran(pod: Obj, verdict: Verdict) -> None:
    close(pod, True, verdict)
