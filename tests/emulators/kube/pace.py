"""Delays of the cluster's parts."""

from dataclasses import dataclass


@dataclass
class Pace:
    """Seconds, and factors on the seconds of manifests. Defaults are a real cluster's, except for pulls."""

    bind_s: float = 0.05  # until the scheduler has looked
    pull_s: float = 0.1  # for an image that is not there
    pull_backoff_s: float = (
        10.0  # after a failed pull, doubled each time. Source: the kubelet's MaxContainerBackOff
    )
    longest_pull_backoff_s: float = 300.0
    restart_backoff_s: float = 10.0  # of a container that is restarted in its pod, doubled each time
    job_backoff_s: float = (
        10.0  # until a Job's next pod, doubled each time. Source: DefaultJobPodFailureBackOff
    )
    create_retry_s: float = 1.0  # after a pod that could not be created
    bookmark_s: float = 30.0  # kopf gives up on a watch that is silent for 70 s
    node_gone_s: float = 40.0  # until a lost machine's node object is removed, and its pods with it
    deadline_factor: float = 1.0  # on activeDeadlineSeconds
    ttl_factor: float = 1.0  # on ttlSecondsAfterFinished
    toleration_factor: float = 1.0  # on tolerationSeconds, 300 by default: how long pods stay on a lost node


def quick() -> Pace:
    """Return the shortest delays that stay visible, for tests."""
    return Pace(
        bind_s=0.01,
        pull_s=0.01,
        pull_backoff_s=0.05,
        longest_pull_backoff_s=0.2,
        restart_backoff_s=0.05,
        job_backoff_s=0.05,
        create_retry_s=0.1,
        bookmark_s=0.1,
        node_gone_s=0.2,
        ttl_factor=0.1,
        toleration_factor=0.001,
    )
