"""The outcome of a job from what its box reports."""

from infra.workers.base.outcome import KILLED, JobOutcome
from infra.workers.ssh.box import Look
from infra.workers.ssh.configuration import Host, SshJobConfiguration


def outcome_of(look: Look, host: Host, configuration: SshJobConfiguration) -> JobOutcome | None:
    """Return how a job ended, or None where it still runs."""
    if look.state in ("running", "prepared"):
        return None
    if look.state == "rebooted":
        return JobOutcome(
            "Rebooted", f"Box {host} was restarted while the container ran; the container is gone."
        )
    if look.state == "absent":
        return JobOutcome("Crashed", f"Box {host} knows nothing of the job: somebody has removed its folder.")
    if look.state == "abandoned":
        return JobOutcome(
            "Crashed",
            f"The process that watched the container on box {host} was killed; it was removed, too.",
        )
    if look.late:
        return JobOutcome(
            "TimedOut",
            f"Box {host} stopped the container after timeout_s {configuration.timeout_s}.",
            look.code,
        )
    if look.unpulled:
        return JobOutcome(
            "ImagePullFailed",
            f"Image {configuration.image} could not be pulled on box {host}; its log says why.",
        )
    if look.code is None:
        return JobOutcome("Crashed", f"The container could not be started on box {host}; its log says why.")
    if look.code == 0:
        return JobOutcome("Exited", "The container ended with exit code 0.", 0)
    if look.oom or (look.code == KILLED and configuration.memory_mib):
        limit = (
            f"memory_mib {configuration.memory_mib} was"
            if configuration.memory_mib
            else "the box's memory was"
        )
        return JobOutcome(
            "OutOfMemory",
            f"The container ran out of memory ({limit} not enough, exit code {look.code}).",
            look.code,
        )
    return JobOutcome("Crashed", f"The container ended with exit code {look.code}.", look.code)
