"""The outcome of a job on Slurm."""

from dataclasses import dataclass

from ...base.outcome import JobOutcome, StateName, is_state_name
from ..configuration import SshJobConfiguration
from .reasons import clause_of
from .states import CANCELLED, ROOT, SlurmJob
from .submission import SECONDS_PER_MINUTE, limit_minutes

# States of jobs that Slurm itself has ended: name, and the sentence.
ENDED_BY_SLURM: dict[str, tuple[StateName, str]] = {
    "TIMEOUT": ("TimedOut", "Slurm ended job {job.number} at its time limit of {limit}"),
    "PREEMPTED": (
        "Preempted",
        "Slurm preempted job {job.number} on node {job.node} for one of higher priority",
    ),
    "NODE_FAIL": ("NodeLost", "Slurm lost the node {job.node} of job {job.number}"),
    "BOOT_FAIL": ("NodeLost", "The node {job.node} for job {job.number} did not boot"),
    "OUT_OF_MEMORY": ("OutOfMemory", "Job {job.number} ran out of memory on node {job.node} ({memory})"),
    "DEADLINE": ("NoCapacity", "Slurm had no node for job {job.number} in wait_s {wait_s}"),
    "REVOKED": ("Preempted", "Slurm gave job {job.number} to another cluster of its federation"),
    "SPECIAL_EXIT": ("Preempted", "Slurm has requeued job {job.number}, which must run only once"),
}


@dataclass(frozen=True)
class Written:
    """Notes that a job has left in its folder.

    Attributes:
        unpulled: its environment could not be made.
        oom: the kernel killed one of its processes for memory.
        late: it was ended after timeout_s.
        unreached: the login node that its node could not reach, and why.
        given_up: why the worker cancelled it.
    """

    code: int | None = None
    unpulled: bool = False
    oom: bool = False
    late: bool = False
    unreached: str = ""
    given_up: str = ""
    last: str = ""


def slurm_outcome(
    job: SlurmJob | None, written: Written, configuration: SshJobConfiguration
) -> JobOutcome | None:
    """Return None while the job waits or runs; without a `job`, neither controller nor accounting has it."""
    if job is not None and not job.ended:
        return None
    if given_up := _given_up(job, written):
        return given_up
    if written.unreached:
        text = (
            "The compute node can't log in to the login node, which connects it to the Prefect API "
            f"({written.unreached}): set slurm.login, or allow nodes to log in there without a password."
        )
        return JobOutcome("Unfit", text)
    if written.unpulled:
        text = f"The job's environment could not be created on the login node: {written.last or 'no output'}"
        return JobOutcome("ImagePullFailed", text)
    if written.late:
        text = f"The job was stopped after timeout_s {configuration.timeout_s}."
        return JobOutcome("TimedOut", text, written.code)
    if job is not None and job.state in ENDED_BY_SLURM:
        return _by_slurm(job, written, configuration)
    return _by_itself(job, written, configuration)


def _given_up(job: SlurmJob | None, written: Written) -> JobOutcome | None:
    name, _, sentence = written.given_up.partition(": ")
    never_began = job.state == CANCELLED if job else written.code is None
    if not written.given_up or not (never_began or name == "Preempted"):
        return None
    return JobOutcome(name if is_state_name(name) else "Crashed", sentence)


def _by_slurm(job: SlurmJob, written: Written, configuration: SshJobConfiguration) -> JobOutcome:
    name, sentence = ENDED_BY_SLURM[job.state]
    asked = limit_minutes(configuration.timeout_s)
    given = asked if job.limit_s is None else job.limit_s // SECONDS_PER_MINUTE
    limit = f"{given} min" if given == asked else f"{given} min, which was set instead of {asked} min"
    wait_s, memory = configuration.wait_s, _limit(configuration)
    text = sentence.format(job=job, limit=limit, wait_s=wait_s, memory=memory)
    reason = f": {job.reason}" if job.state == "DEADLINE" and job.reason not in ("", "DeadLine") else ""
    return JobOutcome(name, f"{text}{reason}.", written.code)


def _by_itself(job: SlurmJob | None, written: Written, configuration: SshJobConfiguration) -> JobOutcome:
    code = written.code if written.code is not None else job.code if job else None
    if job is not None and job.state == CANCELLED:
        user = "an administrator" if job.ended_by == ROOT else f"user {job.ended_by}"
        who = "scancel" if job.ended_by is None else user
        text = f"Slurm job {job.number} was cancelled by {who}, outside of Prefect."
        return JobOutcome("Cancelled", text, code)
    if job is not None and job.state == "FAILED" and written.code is None and (clause := clause_of(job)):
        # It exists although `sbatch` has refused it, and its answer might be lost.
        return JobOutcome("Unschedulable", f"Slurm does not take job {job.number} ({job.reason}): {clause}.")
    if written.oom:
        text = f"The job ran out of memory ({_limit(configuration)}, exit code {code})."
        return JobOutcome("OutOfMemory", text, code)
    if code is None:
        number = f" {job.number}" if job else ""
        return JobOutcome("Lost", f"Slurm no longer knows the job{number}, and the job left no exit code.")
    if code == 0:
        return JobOutcome("Exited", "The job ended with exit code 0.", 0)
    return JobOutcome("Crashed", f"The job ended with exit code {code}.", code)


def _limit(configuration: SshJobConfiguration) -> str:
    if configuration.memory_mib:
        return f"memory_mib {configuration.memory_mib} was not enough"
    return "the node's memory was not enough"
