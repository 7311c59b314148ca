"""Slurm's output on a job: 22.05 from this project's cluster, other versions as published."""

import datetime as dt

import pytest

from infra.workers.ssh.connection import BoxUnreachable
from infra.workers.ssh.slurm.box import job_in, refusal_in
from infra.workers.ssh.slurm.states import SlurmJob, from_sacct, from_scontrol
from tests.infra.workers.ssh.slurm.printed import PENDING, PRINTED, printed


@pytest.mark.parametrize("name", PRINTED)
def test_the_output_of_scontrol_is_parsed(name):
    text, job = PRINTED[name]
    assert from_scontrol(text) == job


def test_a_reason_can_have_spaces_and_commas():
    text = PENDING.replace(
        "Reason=PartitionTimeLimit", "Reason=Nodes required for job are DOWN, DRAINED or reserved"
    )
    assert from_scontrol(text).reason == "Nodes required for job are DOWN, DRAINED or reserved"


@pytest.mark.parametrize("state", ["RUNNING,COMPLETING", "RUNNING+COMPLETING", "RUNNING"])
def test_flags_beside_a_state_are_left_out(state):
    assert from_scontrol(PENDING.replace("JobState=PENDING", f"JobState={state}")).state == "RUNNING"


def test_a_job_that_the_controller_has_forgotten_is_read_as_none():
    assert from_scontrol("slurm_load_jobs error: Invalid job id specified") is None


@pytest.mark.parametrize(
    "text",
    [
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
        "slurm_load_jobs error: Socket timed out on send/recv operation",
        "",
    ],
)
def test_no_answer_is_no_end_of_a_job(text):
    with pytest.raises(ValueError, match=r"error|nothing"):
        from_scontrol(text)
    with pytest.raises(BoxUnreachable, match="Slurm gives no answer"):
        job_in({"job": "7", "scontrol": text})


def T(second):
    return dt.datetime(2026, 11, 25, 2, 0, second)


SACCT = {
    "7|CANCELLED by 6001|0:15|n1|00:05:00": SlurmJob(
        "7", "CANCELLED", code=143, node="n1", ended_by=6001, limit_s=300
    ),
    "7|CANCELLED by 0|0:0|None assigned|00:05:00": SlurmJob(
        "7", "CANCELLED", code=0, ended_by=0, limit_s=300
    ),
    "7|OUT_OF_MEMORY|0:125|n1|00:05:00": SlurmJob("7", "OUT_OF_MEMORY", code=253, node="n1", limit_s=300),
    "7|FAILED|9:0|n1|00:05:00": SlurmJob("7", "FAILED", code=9, node="n1", limit_s=300),
    "7|FAILED|9:0|n1|00:05:00|2026-11-25T02:00:00|2026-11-25T02:00:12": SlurmJob(
        "7", "FAILED", code=9, node="n1", limit_s=300, began=T(0), over=T(12)
    ),
    "7|RUNNING|0:0|n1|00:05:00|2026-11-25T02:00:00|Unknown": SlurmJob(
        "7", "RUNNING", code=0, node="n1", limit_s=300, began=T(0)
    ),
    "Slurm accounting storage is disabled": None,
    "sacct: error: slurm_persist_conn_open_without_init: failed to open persistent connection": None,
    "": None,
}


@pytest.mark.parametrize("text", SACCT)
def test_the_output_of_sacct_is_parsed(text):
    assert from_sacct(text) == SACCT[text]


@pytest.mark.parametrize(
    ("text", "limit_s"),
    [("1-02:00:30", 93630), ("00:11:00", 660), ("UNLIMITED", None), ("Partition_Limit", None)],
)
def test_a_time_limit_is_read_if_there_is_one(text, limit_s):
    assert from_scontrol(PENDING.replace("TimeLimit=00:11:00", f"TimeLimit={text}")).limit_s == limit_s


def test_accounting_knows_cancelling_users_and_forgotten_jobs():
    cancelled = PENDING.replace("JobState=PENDING", "JobState=CANCELLED")
    by = {"job": "7", "sacct": "7|CANCELLED by 6001|0:0|None assigned|00:05:00"}
    assert job_in(by | {"scontrol": cancelled}).ended_by == 6001
    forgotten = {"scontrol": "slurm_load_jobs error: Invalid job id specified"}
    assert job_in(by | forgotten).state == "CANCELLED"
    assert job_in({"job": "7", "sacct": "Slurm accounting storage is disabled"} | forgotten) is None
    late = {"job": "7", "sacct": "7|RUNNING|0:0|n1|00:05:00", "scontrol": cancelled}
    assert job_in(late).state == "CANCELLED", "accounting lags behind"


def test_a_refusal_is_said_in_slurms_words_once():
    said = (
        "sbatch: error: invalid partition specified: nothing\n"
        "sbatch: error: Batch job submission failed: Invalid partition name specified\n"
    )
    assert refusal_in(said) == "invalid partition specified: nothing; Invalid partition name specified"
    assert refusal_in("") == "no output"


def test_times_of_past_events_are_read_and_expected_times_are_not():
    times = {"StartTime": "2026-11-25T02:00:00", "EndTime": "2026-11-25T02:00:12"}
    ended = from_scontrol(printed("COMPLETED", "None", "0:0", **times))
    assert (ended.began, ended.over) == (T(0), T(12))
    runs = from_scontrol(printed("RUNNING", "None", "0:0", **times))
    assert (runs.began, runs.over) == (T(0), None), "its EndTime is that of its limit"
    waits = from_scontrol(printed("PENDING", "Resources", "0:0", **times))
    assert (waits.began, waits.over) == (None, None)
