"""The aws-batch worker with a real Prefect server, the AWS emulator and real containers."""

import asyncio
import subprocess
import sys

import pytest
from prefect.states import Crashed, Pending, Running

from tasks.dispatch.job_end import JobEnd, end_of, has_ended
from tests.infra.workers.batch.worker_checks import submitted

pytestmark = pytest.mark.flaky(
    reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
)

VAGUE = "Execution was aborted by a termination signal."  # an engine's message after SIGTERM
TOO_MUCH = "memory_mib 20000 is more than g5.xlarge in queue g5-xlarge-0 offers (16384)"


ENDS = {
    # name: job variables, state, words of its message
    "exits-0": ({"script": "echo fine"}, "Completed", "exit code 0"),
    "exits-9": ({"script": "echo oops >&2; exit 9"}, "Crashed", "exit code 9"),
    "killed": ({"script": "kill -9 $$", "memory_mib": 64}, "OutOfMemory", "memory_mib 64 was not enough"),
    "pull": ({"script": "true"}, "ImagePullFailed", "could not be pulled"),
    "reclaimed": ({"script": "sleep 30"}, "Reclaimed", "Host EC2"),
    "retried": ({"script": "echo attempt $AWS_BATCH_JOB_ATTEMPT; sleep 1", "attempts": 2}, "Completed", "0"),
    "too-large": ({"script": "true", "memory_mib": 20000}, "Unschedulable", TOO_MUCH),
    "no-machine": ({"script": "true", "capacity_deadline_s": 2}, "NoCapacity", "try another type or region"),
    "chatty": ({"script": "seq 1 1500"}, "Completed", "exit code 0"),
    "flow-less": ({"command": "true"}, "Completed", "exit code 0"),
    "secret": ({"script": "true", "env": {"PREFECT_API_KEY": "x"}}, "Crashed", "never sent in plain text"),
}


async def test_every_job_ends_in_the_right_state(pool, aws):
    aws.control.add("pull", "*-pull")
    aws.control.add("reclaim", "*-reclaimed", after_s=0.5)
    aws.control.add("reclaim", "*-retried", after_line="attempt 1")
    reason = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - Service cannot fulfill the capacity requested"
    aws.control.add("stuck", "*-no-machine", reason=reason)
    runs = {name: await pool.start(name, **variables) for name, (variables, _, _) in ENDS.items()}
    async with pool.worker():
        states = {name: await pool.end(run_id) for name, run_id in runs.items()}
        chatty = await pool.lines_when(runs["chatty"], lambda lines: len(lines) >= 1500)
        retried = await pool.lines_when(runs["retried"], lambda lines: len(lines) >= 2)
    assert {name: states[name].name for name in ENDS} == {name: state for name, (_, state, _) in ENDS.items()}
    for name, (_, _, words) in ENDS.items():
        assert words in states[name].message, name
    assert chatty == [str(n) for n in range(1, 1501)]
    assert retried == ["attempt 1", "attempt 2"]
    logs = [line.message for line in await pool.logs(runs["retried"]) if line.level >= 30]
    assert len(logs) == 1 and logs[0].startswith("Attempt 1 of 2 lost its host (Host EC2")
    assert len(submitted(aws)) == len(ENDS) - 1  # the one with the secret never got there
    definitions = aws.client("batch").describe_job_definitions()["jobDefinitions"]
    assert len(definitions) == 3  # one per content: 128, 64 and 20000 MiB


async def test_cancelling_ends_the_job(pool, aws):
    aws.control.add("stuck", "*-waits")
    batch = aws.client("batch")
    runs = [await pool.start("runs", script="echo on; sleep 600")]
    async with pool.worker():
        assert await pool.lines_when(runs[0], bool) == ["on"]
        runs.append(await pool.start("waits", script="true"))  # now: at the queue's head it blocks the other
        jobs = [
            (await pool.until(run, lambda run: run.infrastructure_pid)).infrastructure_pid for run in runs
        ]
        for run_id in runs:
            await pool.cancel(run_id)
        for run_id in runs:
            assert (await pool.end(run_id)).name == "Cancelled"
    described = batch.describe_jobs(jobs=jobs)["jobs"]
    assert [job["status"] for job in described] == ["FAILED", "FAILED"]
    assert {job["statusReason"].partition(":")[0] for job in described} == {"Cancelled"}


async def test_a_job_terminated_by_a_user_is_reported_with_the_reason_and_blames_no_repeat(pool, aws):
    run_id = await pool.start("ended", script="echo on; sleep 600")
    async with pool.worker(), pool.prefect.client() as api:
        assert await pool.lines_when(run_id, bool) == ["on"]
        job_id = (await pool.run(run_id)).infrastructure_pid
        await api.set_flow_run_state(run_id, Running(), force=True)
        aws.client("batch").terminate_job(jobId=job_id, reason="the wrong image")
        await api.set_flow_run_state(run_id, Crashed(message=VAGUE), force=True)
        run = await pool.until(run_id, has_ended)
    assert (run.state.name, end_of(run)) == ("Cancelled", JobEnd.CANCELLED), run.state.message
    assert "was terminated outside of Prefect: the wrong image" in run.state.message


async def test_a_run_that_was_left_before_its_submission_is_submitted(pool, aws):
    """Its worker died between PENDING and SubmitJob."""
    run_id = await pool.start("left", script="echo there")
    async with pool.prefect.client() as client:
        await client.set_flow_run_state(run_id, Pending(), force=True)
        await client.update_flow_run_labels(run_id, {"prefect.worker.name": "gone"})
    async with pool.worker():
        assert (await pool.end(run_id)).name == "Completed"
    assert len(submitted(aws)) == 1


async def test_a_run_without_credentials_fails_with_that_reason(pool, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    run_id = await pool.start("bare", script="true")
    async with pool.worker():
        state = await pool.end(run_id)
    assert (state.type, state.message) == (
        "CRASHED",
        "The worker has no AWS credentials: give it a role, AWS_PROFILE or AWS_ACCESS_KEY_ID.",
    )


async def test_the_engine_runs_a_flow_again_that_is_running_already(pool, prefect, tmp_path):
    """Like Batch's second attempt after the first set Running and died."""
    (tmp_path / "again.py").write_text("from prefect import flow\n@flow\ndef again(): print('ran')\n")
    async with prefect.client() as client:
        flow_id = await client.create_flow_from_name("again")
        deployment_id = await client.create_deployment(
            flow_id=flow_id, name="again", path=str(tmp_path), entrypoint="again.py:again"
        )
        run = await client.create_flow_run_from_deployment(deployment_id)
        for state in (Pending(), Running()):
            await client.set_flow_run_state(run.id, state, force=True)
        command = [sys.executable, "-m", "prefect.engine"]
        environment = prefect.environment | {"PREFECT__FLOW_RUN_ID": str(run.id)}
        engine = await asyncio.to_thread(
            subprocess.run,
            command,
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            check=False,
            timeout=400,
        )
        assert engine.returncode == 0, engine.stderr.decode()[-2000:]
        assert (await client.read_flow_run(run.id)).state.name == "Completed"
        assert (await client.read_flow_run(run.id)).run_count == 2
