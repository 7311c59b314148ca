"""Output of `scontrol show job -o`: 22.05 from this project's cluster, later versions as published."""

from infra.workers.ssh.slurm.states import SlurmJob

PENDING = (
    "JobId=7 JobName=prefect-1 UserId=ada(6001) GroupId=users(100) MCS_label=N/A Priority=4294901753 Nice=0 "
    "Account=(null) QOS=(null) JobState=PENDING Reason=PartitionTimeLimit Dependency=(null) Requeue=0 Restarts=0 "
    "BatchFlag=1 Reboot=0 ExitCode=0:0 RunTime=00:00:00 TimeLimit=00:11:00 TimeMin=N/A "
    "SubmitTime=2026-11-25T02:15:28 EligibleTime=2026-11-25T02:15:28 AccrueTime=2026-11-25T02:15:28 "
    "StartTime=Unknown EndTime=Unknown Deadline=N/A SuspendTime=None SecsPreSuspend=0 "
    "LastSchedEval=2026-11-25T02:15:28 Scheduler=Main Partition=brief AllocNode:Sid=login:0 ReqNodeList=(null) "
    "ExcNodeList=(null) NodeList= NumNodes=1 NumCPUs=1 NumTasks=1 CPUs/Task=1 ReqB:S:C:T=0:0:*:* "
    "TRES=cpu=1,mem=100M,node=1,billing=1 Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=* MinCPUsNode=1 "
    "MinMemoryNode=100M MinTmpDiskNode=0 Features=(null) DelayBoot=00:00:00 OverSubscribe=OK Contiguous=0 "
    "Licenses=(null) Network=(null) Command=(null) WorkDir=/home/ada StdErr=/home/ada/o-7 StdIn=/dev/null "
    "StdOut=/home/ada/o-7 Power="
)


def printed(state: str, reason: str, code: str, **others: str) -> str:
    """Return the output for a job that has begun on node n1 of partition main."""
    changes = {"JobState": state, "Reason": reason, "ExitCode": code, "NodeList": "n1", "Partition": "main"}
    text = PENDING
    for name, value in (changes | others).items():
        before, _, after = text.partition(f" {name}=")
        text = f"{before} {name}={value} {after.partition(' ')[2]}"
    return text


def job(state: str, reason: str = "", code: int | None = None, **others: object) -> SlurmJob:
    return SlurmJob("7", state, reason, code, "n1", "main", limit_s=660, **others)


NOT_KNOWN = "Job's_account_not_known,_so_it_can't_use_this_partition_(closed_allows_nobody)"
PRINTED = {
    "22.05 never": (PENDING, SlurmJob("7", "PENDING", "PartitionTimeLimit", partition="brief", limit_s=660)),
    "22.05 account": (
        PENDING.replace("PartitionTimeLimit", NOT_KNOWN),
        SlurmJob("7", "PENDING", NOT_KNOWN, partition="brief", limit_s=660),
    ),
    "22.05 runs": (printed("RUNNING", "None", "0:0"), job("RUNNING")),
    "22.05 exit code": (printed("FAILED", "NonZeroExitCode", "9:0"), job("FAILED", "NonZeroExitCode", 9)),
    "22.05 memory": (
        printed("OUT_OF_MEMORY", "OutOfMemory", "0:125"),
        job("OUT_OF_MEMORY", "OutOfMemory", 253),
    ),
    "22.05 limit": (printed("TIMEOUT", "TimeLimit", "0:15"), job("TIMEOUT", "TimeLimit", 143)),
    "22.05 cancelled": (printed("CANCELLED", "None", "0:15"), job("CANCELLED", code=143)),
    "22.05 preempted": (
        printed("PREEMPTED", "None", "0:15"),
        job("PREEMPTED", code=143),
    ),
    "22.05 node": (printed("NODE_FAIL", "NodeDown", "0:0"), job("NODE_FAIL", "NodeDown", 0)),
    "22.05 deadline": (printed("DEADLINE", "DeadLine", "0:1"), job("DEADLINE", "DeadLine", 129)),
    "22.05 paused": (printed("SUSPENDED", "None", "0:0", SecsPreSuspend="4"), job("SUSPENDED", paused=True)),
    "22.05 resumed": (printed("RUNNING", "None", "0:0", SecsPreSuspend="4"), job("RUNNING", paused=True)),
    "22.05 again": (
        printed("PENDING", "BeginTime", "0:0", Restarts="1"),
        job("PENDING", "BeginTime", restarts=1),
    ),
    "25.11 preempted": (
        "JobId=121 JobState=PREEMPTED Reason=None Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 ExitCode=0:15",
        SlurmJob("121", "PREEMPTED", code=143),
    ),
}
