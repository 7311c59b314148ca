import pytest
from kubernetes_asyncio import client

from tests.infra.workers.kubernetes.scenarios.running_jobs import WITHIN_S, running

pytestmark = pytest.mark.flaky(
    reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
)

ENDS = {
    # name: job variables, state, words of its message
    "exits-0": ({"script": "echo fine"}, "Completed", "exit code 0"),
    "exits-9": ({"script": "echo oops >&2; exit 9"}, "Crashed", "exit code 9"),
    "late": ({"script": "sleep 100", "timeout_s": 10, "grace_s": 1}, "TimedOut", "timeout_s 10"),
    "no-node": (
        {"script": "true", "node_selector": {"gridbench/none": "none"}, "schedule_within_s": 8},
        "Unschedulable",
        "nodes are available",
    ),
    "chatty": ({"script": "seq 1 500; printf unfinished"}, "Completed", "exit code 0"),
}


async def test_every_job_ends_in_the_right_state(pool):
    runs = {name: await pool.start(name, **variables) for name, (variables, _, _) in ENDS.items()}
    async with pool.worker():
        states = {name: await pool.end(run_id, WITHIN_S) for name, run_id in runs.items()}
        chatty = await pool.lines_when(runs["chatty"], lambda lines: len(lines) >= 501)
    said = {name: (state.name, state.message) for name, state in states.items()}
    assert {name: state for name, (state, _) in said.items()} == {
        n: state for n, (_, state, _) in ENDS.items()
    }, said
    for name, (_, _, words) in ENDS.items():
        assert words in states[name].message, name
    assert chatty == [*(str(n) for n in range(1, 501)), "unfinished"]


async def test_a_pod_deleted_from_outside_is_lost(pool, place):
    async with pool.worker():
        run_id, _, pod = await running(pool, place)
        await place.core.delete_namespaced_pod(pod, place.name)
        ended = await pool.end(run_id)
    assert (ended.name, pod in ended.message) == ("PodLost", True), ended


async def test_a_pod_that_is_evicted_by_the_api_was_drained(pool, place):
    async with pool.worker():
        run_id, _, pod = await running(pool, place)
        eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name=pod, namespace=place.name))
        await place.core.create_namespaced_pod_eviction(pod, place.name, eviction)
        ended = await pool.end(run_id)
    assert ended.name == "Drained", ended.message


async def test_a_job_deleted_from_outside_ends_its_run(pool, place):
    async with pool.worker():
        run_id, job, _ = await running(pool, place)
        await place.batch.delete_namespaced_job(job, place.name, propagation_policy="Foreground")
        ended = await pool.end(run_id)
    assert ended.name == "PodLost" and "deleted outside" in ended.message, ended.message


async def test_a_killed_worker_leaves_nothing_undone(pool, prefect, place):
    script = "for n in 1 2 3 4 5 6 7 8 9; do echo $n; sleep 1; done"
    run_id = await pool.start("long", script=script)
    first = prefect.worker_process(pool.name, "one", "kubernetes-jobs")
    await pool.until(run_id, lambda run: run.infrastructure_pid)
    first.kill()
    first.wait()
    async with pool.worker("one"):
        assert (await pool.end(run_id, WITHIN_S)).name == "Completed"
        lines = await pool.lines_when(run_id, lambda lines: len(lines) >= 9)
    assert lines == [str(n) for n in range(1, 10)]
    assert len((await place.batch.list_namespaced_job(place.name)).items) == 1
