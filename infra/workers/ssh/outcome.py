"""The outcome of a job from its box's report."""

from ..base.outcome import KILLED, JobOutcome
from .box import Look
from .configuration import Host, SshJobConfiguration
from .slurm.box import SlurmLook
from .slurm.outcome import slurm_outcome


def outcome_of(look: Look, host: Host, configuration: SshJobConfiguration) -> JobOutcome | None:
    """Return None while the job runs."""
    if look.state in ("running", "prepared"):
        return None
    if isinstance(look, SlurmLook) and look.state == "ended":
        return slurm_outcome(look.job, look.written, configuration)
    return _interrupted(look, host, configuration) or _ended(look, host, configuration)


def _interrupted(look: Look, host: Host, configuration: SshJobConfiguration) -> JobOutcome | None:
    """Return the outcome of a job ended from outside."""
    if look.state == "rebooted":
        text = f"Box {host} was restarted while the job was running; the job was lost."
        return JobOutcome("Rebooted", text)
    if look.state == "absent":
        return JobOutcome("Crashed", f"Box {host} no longer has the job's folder: it was removed.")
    if look.state == "abandoned":
        text = f"The process that watched the job on box {host} was killed, so the job was stopped, too."
        return JobOutcome("Crashed", text)
    if look.late:
        text = f"Box {host} stopped the job after timeout_s {configuration.timeout_s}."
        return JobOutcome("TimedOut", text, look.code)
    return None


def _ended(look: Look, host: Host, configuration: SshJobConfiguration) -> JobOutcome:
    if look.unpulled:
        image = configuration.image
        what = f"Image {image} could not be pulled" if image else "The job's environment could not be created"
        return JobOutcome("ImagePullFailed", f"{what} on box {host}: {look.last or 'see its log'}")
    if look.code is None and look.begun:
        text = f"The job was removed from box {host} outside of Prefect while it was running."
        return JobOutcome("Removed", text)
    if look.code is None:
        return JobOutcome("Crashed", f"The job could not be started on box {host}; see its log.")
    if look.code == 0:
        return JobOutcome("Exited", "The job ended with exit code 0.", 0)
    memory_mib = configuration.memory_mib
    if look.oom:
        limit = f"memory_mib {memory_mib} was" if memory_mib else "the box's memory was"
        text = f"The job ran out of memory ({limit} not enough, exit code {look.code})."
        return JobOutcome("OutOfMemory", text, look.code)
    if look.code == KILLED and memory_mib:
        # Docker does not always see it (hashicorp/nomad #13119), and a kill looks the same (#12735 there).
        text = f"The job ran out of memory, or it was killed (memory_mib {memory_mib}, exit code {KILLED})."
        return JobOutcome("OutOfMemory", text, look.code)
    return JobOutcome("Crashed", f"The job ended with exit code {look.code}.", look.code)
