import pytest

from infra.workers.base.outcome import Cause
from infra.workers.ssh.slurm.outcome import Written, slurm_outcome
from infra.workers.ssh.slurm.reasons import NEVER, to_give_up
from infra.workers.ssh.slurm.states import SlurmJob
from tests.infra.workers.ssh.slurm.test_submission import configuration

ENDS = {
    # Slurm's state: the files written, name, cause, words of the sentence
    ("COMPLETED", Written(code=0)): ("Exited", Cause.EXITED, "exit code 0"),
    ("FAILED", Written(code=9)): ("Crashed", Cause.CRASHED, "exit code 9"),
    ("TIMEOUT", Written()): ("TimedOut", Cause.CRASHED, "time limit of 3 min."),
    ("FAILED", Written(code=143, late=True)): ("TimedOut", Cause.CRASHED, "timeout_s 100"),
    ("PREEMPTED", Written(code=143)): ("Preempted", Cause.TAKEN_AWAY, "job 7 on node n1"),
    ("NODE_FAIL", Written()): ("NodeLost", Cause.TAKEN_AWAY, "lost the node n1"),
    ("BOOT_FAIL", Written()): ("NodeLost", Cause.TAKEN_AWAY, "did not boot"),
    ("OUT_OF_MEMORY", Written(code=137)): ("OutOfMemory", Cause.OUT_OF_MEMORY, "memory_mib 512"),
    ("FAILED", Written(code=137, oom=True)): ("OutOfMemory", Cause.OUT_OF_MEMORY, "memory_mib 512"),
    ("DEADLINE", Written()): ("NoCapacity", Cause.NO_MACHINE, "in wait_s 50"),
    ("CANCELLED", Written(code=143)): ("Cancelled", Cause.CANCELLED, "by scancel, outside of Prefect"),
    ("FAILED", Written()): ("Crashed", Cause.CRASHED, "exit code 1"),
    ("FAILED", Written(unreached="n1 to login: Permission denied")): ("Unfit", Cause.UNFIT, "n1 to login"),
    ("FAILED", Written(unpulled=True)): ("ImagePullFailed", Cause.CRASHED, "environment"),
    ("CANCELLED", Written(given_up="Preempted: It was paused.")): ("Preempted", Cause.TAKEN_AWAY, "It was"),
    ("CANCELLED", Written(given_up="Unschedulable: Never.")): ("Unschedulable", Cause.NO_MACHINE, "Never."),
}


BEGAN = "NoCapacity: Slurm had no node for job 7 in wait_s 50; it was cancelled."


@pytest.mark.parametrize(
    ("job", "written", "name"),
    [
        (SlurmJob("7", "CANCELLED"), Written(given_up=BEGAN), "NoCapacity"),
        (None, Written(given_up=BEGAN), "NoCapacity"),
        (SlurmJob("7", "FAILED", code=9), Written(code=9, given_up=BEGAN), "Crashed"),
        (SlurmJob("7", "COMPLETED", code=0), Written(code=0, given_up=BEGAN), "Exited"),
        (None, Written(code=9, given_up=BEGAN), "Crashed"),
        (SlurmJob("7", "FAILED", code=75), Written(given_up="Preempted: Queued again."), "Preempted"),
    ],
)
def test_a_job_that_began_before_it_could_be_cancelled_has_its_own_end(job, written, name):
    assert slurm_outcome(job, written, asked()).name == name


def given_up(job, waited_s=1):
    return to_give_up(job, waited_s, 50)


@pytest.mark.parametrize(
    ("limit_s", "words"), [(180, "limit of 3 min."), (60, "limit of 1 min, which was set")]
)
def test_the_limit_that_is_named_is_the_one_that_ended_it(limit_s, words):
    outcome = slurm_outcome(SlurmJob("7", "TIMEOUT", limit_s=limit_s), Written(), asked())
    assert words in outcome.message


def asked():
    return configuration(timeout_s=100, wait_s=50, memory_mib=512)


@pytest.mark.parametrize(("state", "written"), ENDS)
def test_each_end_has_its_own_name(state, written):
    code = {"COMPLETED": 0, "FAILED": 1}.get(state)
    outcome = slurm_outcome(SlurmJob("7", state, code=code, node="n1"), written, asked())
    name, cause, words = ENDS[state, written]
    assert (outcome.name, outcome.cause) == (name, cause)
    assert words in outcome.message


@pytest.mark.parametrize(("user", "who"), [(0, "an administrator"), (6001, "user 6001"), (None, "scancel")])
def test_the_user_who_cancelled_a_job_is_named(user, who):
    outcome = slurm_outcome(SlurmJob("7", "CANCELLED", ended_by=user), Written(), asked())
    assert f"by {who}" in outcome.message


@pytest.mark.parametrize(
    "state", ["PENDING", "RUNNING", "COMPLETING", "SUSPENDED", "CONFIGURING", "REQUEUED"]
)
def test_a_job_that_waits_or_runs_has_no_end(state):
    assert slurm_outcome(SlurmJob("7", state), Written(code=0), asked()) is None


def test_a_job_that_exists_although_sbatch_refused_it_is_not_the_lanes_failure():
    outcome = slurm_outcome(SlurmJob("7", "FAILED", "BadConstraints", code=1), Written(), asked())
    assert (outcome.name, "or memory_mib" in outcome.message) == ("Unschedulable", True)


def test_the_jobs_own_word_is_enough_where_slurm_has_forgotten_it():
    assert slurm_outcome(None, Written(code=0), asked()).name == "Exited"
    assert slurm_outcome(None, Written(code=9), asked()).exit_code == 9
    assert slurm_outcome(None, Written(), asked()).name == "Lost"


@pytest.mark.parametrize("reason", [*NEVER, "QOSMaxWallDurationPerJobLimit", "AssocMaxGRESPerJob"])
def test_a_job_that_can_never_start_is_given_up_with_advice(reason):
    why = given_up(SlurmJob("7", "PENDING", reason, partition="gpu"))
    assert why.startswith(f"Unschedulable: Slurm can never start job 7 ({reason}): ")
    assert "{" not in why


PASSES = (
    *("Resources", "Priority", "ReqNodeNotAvail, UnavailableNodes:n1", "AssocGrpGRES", "QOSGrpCpuLimit", ""),
    *("QOSMaxJobsPerUserLimit", "PartitionDown", "JobHeldAdmin", "BeginTime", "Licenses"),
)


@pytest.mark.parametrize("reason", PASSES)
def test_a_reason_that_can_pass_is_waited_for(reason):
    assert given_up(SlurmJob("7", "PENDING", reason)) is None


def test_a_partition_that_takes_others_is_reported_in_a_sentence_by_older_versions():
    said = "Job's_account_not_known,_so_it_can't_use_this_partition_(closed_allows_nobody)"
    why = given_up(SlurmJob("7", "PENDING", said, partition="closed"))
    assert "partition closed does not accept slurm.account" in why


def test_a_limit_on_one_job_names_its_field():
    job = SlurmJob("7", "PENDING", "QOSMaxWallDurationPerJobLimit")
    assert "lower timeout_s" in given_up(job)


def test_a_paused_lane_and_one_that_is_queued_again_are_given_up():
    assert "paused" in given_up(SlurmJob("7", "SUSPENDED", paused=True))
    assert "paused" in given_up(SlurmJob("7", "RUNNING", paused=True))
    assert "requeued job 7" in given_up(SlurmJob("7", "PENDING", restarts=1))
    assert given_up(SlurmJob("7", "COMPLETED", paused=True)) is None


def test_a_queue_is_waited_for_as_long_as_wait_s_says_and_a_job_that_runs_is_left_alone():
    waits = SlurmJob("7", "PENDING", "Resources")
    assert given_up(waits, 50) is None
    assert given_up(waits, 51).startswith("NoCapacity: Slurm had no node for job 7 in wait_s 50 (Resources)")
    assert given_up(SlurmJob("7", "RUNNING"), 51) is None
