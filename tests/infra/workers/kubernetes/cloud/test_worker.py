"""The kubernetes-jobs worker with a real Prefect server and the emulated cluster of processes."""

import asyncio

import pytest

from tests.infra.workers.kubernetes.worker_checks import ACCELERATOR, NAMESPACE

pytestmark = pytest.mark.flaky(
    reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
)

REFUSED = {
    # name: job variables, state, words of its message; ends that any cluster has are in test_kubernetes_scenarios
    "pull": ({"script": "true", "image": "nothing:1"}, "ImagePullFailed", "nothing:1 could not be pulled"),
    "no-node": (
        {"script": "true", "gpus": 1, "schedule_within_s": 8, **ACCELERATOR},
        "Unschedulable",
        "schedule_within_s 8: 0/1 nodes are available",
    ),
    "account": (
        {"script": "true", "service_account": "nobody-made-it"},
        "PodRefused",
        'serviceaccount "nobody-made-it" not found',
    ),
    "secret": ({"script": "true", "env": {"PREFECT_API_KEY": "x"}}, "Crashed", "never sent in plain text"),
    "nonsense": ({"script": "true", "spot": True}, "Crashed", "node_labels does not name its label"),
}


async def test_a_job_that_can_not_start_ends_with_the_reason(pool, cluster):
    cluster.control.pull_failures["nothing:1"] = "not found"
    runs = {name: await pool.start(name, **variables) for name, (variables, _, _) in REFUSED.items()}
    async with pool.worker():
        for name, (_, state, words) in REFUSED.items():
            ended = await pool.end(runs[name])
            assert (ended.name, words in ended.message) == (state, True), ended.message
    waits = [line.message for line in await pool.logs(runs["no-node"]) if "has waited for" in line.message]
    assert waits and "0/1 nodes are available" in waits[0]
    created = cluster.control.asked("POST", "*/jobs")
    assert len(created) == len(REFUSED) - 2  # those that make no sense never got there


async def run_of(pool, cluster, **variables):
    run_id = await pool.start("long", script="echo on; sleep 600", **variables)
    name = (await pool.until(run_id, lambda run: run.infrastructure_pid)).infrastructure_pid.partition(":")[2]
    for _ in range(4000):
        pods = await asyncio.to_thread(cluster.control.pods, name)
        if pods and pods[0]["status"].get("phase") == "Running":
            return run_id, pods[0]
        await asyncio.sleep(0.1)
    raise AssertionError("no pod runs")


FAULTS = {
    # what happens to the pod or its node: state, words of its message
    "oom": (
        lambda control, pod: control.oom(pod),
        "OutOfMemory",
        "memory_mib 128 was not enough, exit code 137",
    ),
    "evicted": (lambda control, pod: control.evict(pod), "Evicted", "low on resource: memory"),
    "drained": (lambda control, pod: control.drain(pod["spec"]["nodeName"]), "Drained", "was drained"),
    "lost": (lambda control, pod: control.lose_node(pod["spec"]["nodeName"]), "NodeLost", "node-"),
    "reclaimed": (
        lambda control, pod: control.reclaim_node(pod["spec"]["nodeName"]),
        "Reclaimed",
        "shut down",
    ),
    "killed": (lambda control, pod: control.kill_pod(pod), "Crashed", "exit code 137"),
}


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(one, marks=pytest.mark.chaos) if one in ("drained", "reclaimed") else one
        for one in FAULTS
    ],
)
async def test_faults_of_a_pod_end_in_distinct_states(pool, cluster, fault):
    act, state, words = FAULTS[fault]
    async with pool.worker():
        run_id, pod = await run_of(pool, cluster)
        await asyncio.to_thread(act, cluster.control, pod)
        ended = await pool.end(run_id)
    assert (ended.name, words in ended.message) == (state, True), ended.message


async def test_a_job_outlives_the_tokens_of_its_worker(pool, cluster, tmp_path, monkeypatch):
    login = cluster.login(tmp_path / "login", "gridbench-worker", NAMESPACE, lives_s=2)
    place = "kubernetes_asyncio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"
    monkeypatch.setattr(place, str(login.kubeconfig))
    monkeypatch.setenv("KUBERNETES_JOBS_WORKER_WATCH_S", "1")
    run_id = await pool.start("long", script="sleep 8; echo done")
    async with pool.worker():
        assert (await pool.end(run_id)).name == "Completed"
        assert await pool.lines_when(run_id, bool) == ["done"]
    assert login.runs >= 4


async def test_a_lost_answer_makes_no_second_job(pool, cluster):
    cluster.control.fault("POST", "*/jobs", 502, after=True, body="<html>bad gateway</html>")
    run_id = await pool.start("once", script="echo once")
    async with pool.worker():
        assert (await pool.end(run_id)).name == "Completed"
        assert await pool.lines_when(run_id, bool) == ["once"]
    assert len(cluster.control.pods()) == 1


async def test_a_forgotten_history_is_read_anew(pool, cluster):
    async with pool.worker():
        run_id, pod = await run_of(pool, cluster)
        await asyncio.to_thread(cluster.control.compact)
        await asyncio.to_thread(cluster.control.break_watches)
        await asyncio.to_thread(cluster.control.kill_pod, pod)
        assert "exit code 137" in (await pool.end(run_id)).message


async def test_a_worker_without_the_right_to_look_starts_nothing(pool, cluster, tmp_path, monkeypatch):
    token = cluster.token(NAMESPACE, "gridbench-job")  # which has no rights at all
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig(tmp_path / "other", token, NAMESPACE)))
    monkeypatch.setattr(
        "kubernetes_asyncio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "other")
    )
    run_id = await pool.start("blind", script="true")
    async with pool.worker() as worker:
        ended = await pool.end(run_id)
        assert not worker._namespaces, "nor is the namespace watched on"
        asked = len(cluster.control.requests)
        await asyncio.sleep(2)
        assert len(cluster.control.requests) == asked
    assert ended.name == "Crashed" and "not allowed to list and watch jobs and pods" in ended.message
    assert not cluster.control.asked("POST", "*/jobs")
    cluster.control.requests.clear()
