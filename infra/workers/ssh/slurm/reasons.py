"""The reasons of a job that Slurm will never start."""

import re

from .states import SlurmJob

# By Slurm's name of the reason. All others are temporary: the job waits for wait_s.
NEVER = {
    "PartitionTimeLimit": "partition {partition} does not allow that much time: lower timeout_s",
    # Slurm's first reason for a partition's time limit, too.
    "PartitionConfig": "partition {partition} allows less: lower slurm.cpus, memory_mib, gpus or timeout_s",
    "PartitionNodeLimit": "partition {partition} does not allow that number of nodes: set another slurm.partition",
    "BadConstraints": "no node has all of these resources: change slurm.constraint, slurm.cpus, gpus or memory_mib",
    "InvalidAccount": "you cannot use slurm.account: `sacctmgr show associations user=$USER` lists your accounts",
    "AccountNotAllowed": "partition {partition} does not accept slurm.account: change one of them",
    "InvalidQOS": "the account cannot use slurm.qos: set another",
    "QOSNotAllowed": "partition {partition} does not accept slurm.qos: change one of them",
    "DependencyNeverSatisfied": "it depends on another job that failed: submit it again",
    "QOSMinGRES": "slurm.qos requires more GPUs: raise gpus, or set another slurm.qos",
    "QOSMinMemory": "slurm.qos requires more memory: raise memory_mib, or set another slurm.qos",
    "QOSMinCpuNotSatisfied": "slurm.qos requires more CPUs: raise slurm.cpus, or set another slurm.qos",
    "JobHoldMaxRequeue": "it could not be launched on several nodes: ask the cluster's administrator",
    "ReservationDeleted": "slurm.reservation no longer exists: set another, or leave it empty",
    "FedJobLock": "the federation holds it: ask the cluster's administrator",
}
# Newer versions name them AccountNotAllowed and QOSNotAllowed.
SENTENCES = {"Job's_account_not": "AccountNotAllowed", "Job's_QOS_not": "QOSNotAllowed"}
# A limit on one job stays; one on all jobs of an account is temporary.
TOO_MUCH = re.compile(r"(Assoc|QOS)Max(?P<what>\w*?)(PerJob|PerNode)(Limit)?$")
FIELDS = {
    "WallDuration": "timeout_s",
    "Cpu": "slurm.cpus",
    "Mem": "memory_mib",
    "Memory": "memory_mib",
    "GRES": "gpus",
    "Node": "slurm.partition",
    "CpuMinutes": "timeout_s or slurm.cpus",
    "GRESMinutes": "timeout_s or gpus",
    "MemMinutes": "timeout_s or memory_mib",
    "CpuMins": "timeout_s or slurm.cpus",
}


def clause_of(job: SlurmJob) -> str | None:
    """Return the needs of a job that can never start, as a clause; None for a temporary reason."""
    reason = job.reason.partition(",")[0].strip().replace(" ", "_")
    reason = next((name for begins, name in SENTENCES.items() if reason.startswith(begins)), reason)
    if clause := NEVER.get(reason):
        return clause.format(partition=job.partition or "of the cluster")
    if over := TOO_MUCH.match(reason):
        field = FIELDS.get(over["what"], "the requested resources")
        return f"the limits of your account or slurm.qos do not allow that much: lower {field}"
    return None


def to_give_up(job: SlurmJob, waited_s: float, wait_s: int) -> str | None:
    """Return why the worker cancels a job that Slurm would keep, as `NAME: SENTENCE`.

    A job that can never start would wait for ever. A pause makes a job's times wrong.
    """
    if job.ended:
        return None
    if job.restarts:
        return f"Preempted: Slurm has requeued job {job.number}, which must run only once; it was cancelled."
    if job.paused:
        return f"Preempted: Slurm has paused job {job.number}, which makes its times wrong; it was cancelled."
    if job.waits and (clause := clause_of(job)):
        return f"Unschedulable: Slurm can never start job {job.number} ({job.reason}): {clause}."
    if job.waits and waited_s > wait_s:
        reason = f" ({job.reason})" if job.reason else ""
        late = f"Slurm had no node for job {job.number} in wait_s {wait_s}{reason}"
        return f"NoCapacity: {late}; it was cancelled."
    return None
