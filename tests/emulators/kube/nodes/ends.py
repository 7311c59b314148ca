"""Ends of pods that a cluster or a test causes."""

from dataclasses import dataclass

# [doc] kubernetes/kubernetes, pkg/kubelet/eviction/helpers.go
LOW_ON_MEMORY = (
    "The node was low on resource: memory. Threshold quantity: 100Mi, available: 84Mi. Container {container} "
    "was using 3012Mi, request is 0, has larger consumption of memory. "
)
EPHEMERAL_LIMIT = "Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "
# [doc] kubernetes/kubernetes, pkg/kubelet/nodeshutdown: and what GKE's spot nodes leave behind
SHUTDOWN = "Pod was terminated in response to imminent node shutdown."
# [doc] docs.cloud.google.com/kubernetes-engine/docs/concepts/spot-vms: for pods, of 30 s. From GKE 1.35 on a pool can
# ask for up to 120 s; ours don't
SPOT_GRACE_S = 15


@dataclass(frozen=True)
class Verdict:
    """How a pod is ended, and its status then.

    reason, message: the pod's, with phase Failed. container_reason: of the terminated state. disruption:
    reason and message of the DisruptionTarget condition. event: reason and message of a Warning. killing:
    with a Killing event. deleted: deletion was requested. forgotten: the object is gone already. silent: the
    node can report nothing more.
    """

    grace_s: float = 0
    reason: str = ""
    message: str = ""
    container_reason: str = ""
    disruption: tuple[str, str] | None = None
    event: tuple[str, str] | None = None
    killing: bool = False
    deleted: bool = False
    forgotten: bool = False
    silent: bool = False


def evicted(message: str) -> Verdict:
    disruption = ("TerminationByKubelet", message)
    return Verdict(0, "Evicted", message, disruption=disruption, event=("Evicted", message))


def shut_down(grace_s: float) -> Verdict:
    disruption = ("TerminationByKubelet", SHUTDOWN)
    return Verdict(min(grace_s, SPOT_GRACE_S), "Terminated", SHUTDOWN, disruption=disruption, killing=True)


KILLED = Verdict()
OUT_OF_MEMORY = Verdict(container_reason="OOMKilled")
NODE_LOST = Verdict(silent=True)
CLOSED = Verdict(forgotten=True, silent=True)
