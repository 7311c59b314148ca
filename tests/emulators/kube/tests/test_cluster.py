"""The machines of the Kubernetes stand-in: scheduling, pulls, quotas, and how pods are taken away."""

import pytest
from kubernetes_asyncio import client
from kubernetes_asyncio.client.exceptions import ApiException

from tests.emulators.kube.job_examples import SPACE, condition, connected, end_of, said, terminated, until
from tests.emulators.kube.nodes.runner import Processes
from tests.emulators.kube.server import kube

ACCELERATOR = "cloud.google.com/gke-accelerator"
L4 = {ACCELERATOR: "nvidia-l4"}
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
ONE_GPU = {"nvidia.com/gpu": 1}
SLEEP = "echo on; exec sleep 60"
AFTERWARDS = "no new claims to deallocate, preemption: 0/1 nodes are available: 1 "


@pytest.fixture
def cluster():
    with kube(Processes(known=("bench/*",))) as made:
        yield made


@pytest.fixture
async def kubernetes(cluster):
    async with connected(cluster) as made:
        yield made


def refused_by_scheduler(pod):
    found = condition(pod, "PodScheduled")
    return found and found.status == "False"


async def test_an_unschedulable_pod_waits_for_its_node(cluster, kubernetes):
    name = await kubernetes.submit("true", limits=ONE_GPU, pod={"nodeSelector": L4})
    pod = await kubernetes.pod(name, refused_by_scheduler)
    scheduled = condition(pod, "PodScheduled")
    text = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. "
    text += AFTERWARDS + "Preemption is not helpful for scheduling."
    assert (scheduled.reason, scheduled.message) == ("Unschedulable", text)
    assert await kubernetes.told(pod.metadata.name, "FailedScheduling") == text
    assert pod.status.phase == "Pending"
    cluster.control.add_node("gpu-1", L4, (GPU_TAINT,), **{"nvidia.com/gpu": "1"})
    assert end_of(await kubernetes.ended(name))[0] == "Complete"
    assert (await kubernetes.pods(name))[0].spec.node_name == "gpu-1"


async def test_what_is_too_large_is_told_by_its_resource(kubernetes):
    name = await kubernetes.submit("true", limits={"cpu": 1000, "memory": "1Mi"})
    pod = await kubernetes.pod(name, refused_by_scheduler)
    text = "0/1 nodes are available: 1 Insufficient cpu. "
    text += AFTERWARDS + "Preemption is not helpful for scheduling."
    assert condition(pod, "PodScheduled").message == text


async def test_a_taint_keeps_pods_off_where_no_admission_adds_the_toleration():
    with kube(gke=False, nodes=0) as cluster:
        async with connected(cluster) as kubernetes:
            name = await kubernetes.submit("true", limits=ONE_GPU)
            pod = await kubernetes.pod(name, refused_by_scheduler)
            assert condition(pod, "PodScheduled").message == "no nodes available to schedule pods"
            cluster.control.add_node("gpu-1", L4, (GPU_TAINT,), **{"nvidia.com/gpu": "1"})

            def tainted(pod):
                return "1 node(s) had untolerated taint(s)" in condition(pod, "PodScheduled").message

            await kubernetes.pod(name, tainted)
            tolerating = {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}
            other = await kubernetes.submit("true", limits=ONE_GPU, pod=tolerating)
            assert end_of(await kubernetes.ended(other))[0] == "Complete"


async def test_a_gpu_is_given_to_one_pod_at_a_time(cluster, kubernetes):
    cluster.control.add_node("gpu-1", L4, (GPU_TAINT,), **{"nvidia.com/gpu": "1"})
    first = await kubernetes.submit(SLEEP, limits=ONE_GPU)
    await kubernetes.running(first)
    second = await kubernetes.submit("true", limits=ONE_GPU)
    pod = await kubernetes.pod(second, refused_by_scheduler)
    text = condition(pod, "PodScheduled").message
    assert "2 Insufficient nvidia.com/gpu" in text
    assert "1 No preemption victims found for incoming pod, 1 Preemption is not helpful for" in text
    await kubernetes.batch.delete_namespaced_job(first, SPACE, propagation_policy="Background")
    assert end_of(await kubernetes.ended(second))[0] == "Complete"


async def test_the_autoscaler_brings_a_node(cluster, kubernetes):
    pool = {"labels": L4, "taints": (GPU_TAINT,), "allocatable": {"nvidia.com/gpu": "1"}}
    cluster.control.autoscale("l4", 0.05, **pool)
    name = await kubernetes.submit("true", limits=ONE_GPU, pod={"nodeSelector": L4})
    assert end_of(await kubernetes.ended(name))[0] == "Complete"
    (pod,) = await kubernetes.pods(name)
    said = await kubernetes.told(pod.metadata.name, "TriggeredScaleUp")
    assert said == "pod triggered scale-up: [{l4 0->1 (max: 1)}]"
    assert pod.spec.node_name == "l4-1"


async def test_the_cloud_may_have_none(cluster, kubernetes):
    resources = {"nvidia.com/gpu": "1"}
    cluster.control.autoscale("l4", labels=L4, allocatable=resources, out_of_stock=True)
    name = await kubernetes.submit("true", limits=ONE_GPU, pod={"nodeSelector": L4})
    pod = await kubernetes.pod(name)
    assert "GCE out of resources" in await kubernetes.told(pod.metadata.name, "FailedScaleUp")
    said = await kubernetes.told(pod.metadata.name, "NotTriggerScaleUp")
    assert said == "pod didn't trigger scale-up: 1 in backoff after failed scale-up"
    of_it = [reason for reason, _ in await kubernetes.reasons(pod.metadata.name)]
    assert of_it == ["FailedScheduling", "TriggeredScaleUp", "FailedScaleUp", "NotTriggerScaleUp"]


async def test_an_image_that_is_not_there(kubernetes):
    name = await kubernetes.submit("true", image="nowhere/cpu:1")

    def waiting(reason):
        def test(pod):
            statuses = pod.status.container_statuses
            return statuses and statuses[0].state.waiting and statuses[0].state.waiting.reason == reason

        return test

    pod = await kubernetes.pod(name, waiting("ImagePullBackOff"))
    message = pod.status.container_statuses[0].state.waiting.message
    assert message.startswith(
        'Back-off pulling image "nowhere/cpu:1": ErrImagePull: rpc error: code = NotFound'
    )
    assert "docker.io/nowhere/cpu:1: not found" in message
    assert pod.status.phase == "Pending"
    told = dict(await kubernetes.reasons(pod.metadata.name))
    assert {"Pulling", "Failed", "BackOff"} <= set(told)
    with pytest.raises(ApiException) as refused:
        await kubernetes.core.read_namespaced_pod_log(pod.metadata.name, SPACE)
    assert "is waiting to start: " in said(refused.value)


async def test_a_pull_that_fails_for_a_while(cluster, kubernetes):
    cluster.control.pull_failures["bench/*"] = why = "failed to authorize: 401 Unauthorized"
    name = await kubernetes.submit("true")
    pod = await kubernetes.pod(name)
    assert await kubernetes.told(pod.metadata.name, "Failed", why)
    cluster.control.pull_failures.clear()
    assert end_of(await kubernetes.ended(name))[0] == "Complete"


async def test_a_local_image_stands_for_a_registry_s(cluster, kubernetes):
    cluster.control.images["registry.example/*"] = "bench/cpu:1"
    name = await kubernetes.submit("true", image="registry.example/cpu@sha256:00")
    assert end_of(await kubernetes.ended(name))[0] == "Complete"


async def failed(kubernetes, name):
    """The Job's pod as it stayed, once the Job has failed."""
    assert end_of(await kubernetes.ended(name)) == ("Failed", "BackoffLimitExceeded")
    (pod,) = await kubernetes.pods(name)
    return pod


async def test_out_of_memory(cluster, kubernetes):
    name = await kubernetes.submit(SLEEP)
    cluster.control.oom((await kubernetes.running(name)).metadata.name)
    pod = await failed(kubernetes, name)
    assert (terminated(pod).exit_code, terminated(pod).reason) == (137, "OOMKilled")
    assert pod.status.reason is None


async def test_a_kill_from_outside(cluster, kubernetes):
    name = await kubernetes.submit(SLEEP)
    cluster.control.kill_pod((await kubernetes.running(name)).metadata.name)
    pod = await failed(kubernetes, name)
    assert (terminated(pod).exit_code, terminated(pod).reason) == (137, "Error")


async def test_the_kubelet_evicts(cluster, kubernetes):
    name = await kubernetes.submit(SLEEP)
    cluster.control.evict((await kubernetes.running(name)).metadata.name)
    pod = await failed(kubernetes, name)
    assert pod.status.reason == "Evicted"
    assert pod.status.message.startswith("The node was low on resource: memory.")
    assert condition(pod, "DisruptionTarget").reason == "TerminationByKubelet"
    assert await kubernetes.told(pod.metadata.name, "Evicted") == pod.status.message


async def test_the_eviction_api_deletes_the_pod(kubernetes):
    name = await kubernetes.submit(SLEEP)
    pod = await kubernetes.running(name)
    body = client.V1Eviction(metadata=client.V1ObjectMeta(name=pod.metadata.name))
    await kubernetes.core.create_namespaced_pod_eviction(pod.metadata.name, SPACE, body)
    assert end_of(await kubernetes.ended(name)) == ("Failed", "BackoffLimitExceeded")
    assert await kubernetes.pods(name) == []


async def test_a_drained_node_evicts_and_takes_no_more(cluster, kubernetes):
    name = await kubernetes.submit("trap 'exit 3' TERM; echo on; while :; do sleep 0.05; done")
    await kubernetes.speaking(name)
    seen = (await kubernetes.core.list_namespaced_pod(SPACE)).metadata.resource_version
    cluster.control.drain("node-1")
    assert end_of(await kubernetes.ended(name))[0] == "Failed"
    store = cluster.control.cluster.store
    changes = cluster.control.call(lambda: store.since(int(seen)))
    last = [change.object for change in changes if change.plural == "pods"][-1]
    reasons = {c["type"]: c.get("reason") for c in last["status"]["conditions"]}
    assert reasons["DisruptionTarget"] == "EvictionByEvictionAPI"
    assert last["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    other = await kubernetes.submit("true")
    pod = await kubernetes.pod(other, refused_by_scheduler)
    assert "1 node(s) were unschedulable" in condition(pod, "PodScheduled").message
    cluster.control.uncordon("node-1")
    assert end_of(await kubernetes.ended(other))[0] == "Complete"


async def test_a_lost_node_takes_its_pods(cluster, kubernetes):
    name = await kubernetes.submit(SLEEP)
    pod = await kubernetes.running(name)
    cluster.control.lose_node("node-1")
    said = await kubernetes.told(pod.metadata.name, "TaintManagerEviction")
    assert said == f"Marking for deletion Pod {SPACE}/{pod.metadata.name}"
    assert await kubernetes.told(pod.metadata.name, "NodeNotReady") == "Node is not ready"
    assert end_of(await kubernetes.ended(name)) == ("Failed", "BackoffLimitExceeded")

    async def no_pods():
        return not await kubernetes.pods(name)

    await until(no_pods)
    assert (await kubernetes.core.list_node()).items == []


async def test_a_lost_node_that_stays_listed_keeps_its_pods(cluster, kubernetes):
    name = await kubernetes.submit(SLEEP)
    await kubernetes.running(name)
    cluster.control.lose_node("node-1", removed=False)
    pod = await kubernetes.pod(name, lambda pod: pod.metadata.deletion_timestamp)
    assert pod.status.phase == "Running"
    assert condition(pod, "Ready").status == "False"
    assert condition(pod, "DisruptionTarget").reason == "DeletionByTaintManager"
    (node,) = (await kubernetes.core.list_node()).items
    assert next(c for c in node.status.conditions if c.type == "Ready").status == "Unknown"
    with pytest.raises(ApiException) as refused:
        await kubernetes.core.read_namespaced_pod_log(pod.metadata.name, SPACE)
    assert refused.value.status == 500
    assert end_of(await kubernetes.job(name)) is None
    cluster.control.remove_node("node-1")
    assert end_of(await kubernetes.ended(name)) == ("Failed", "BackoffLimitExceeded")


async def test_a_spot_node_is_reclaimed_with_notice(cluster, kubernetes):
    name = await kubernetes.submit("trap 'echo saved; exit 0' TERM; echo on; while :; do sleep 0.05; done")
    await kubernetes.speaking(name)
    seen = (await kubernetes.core.list_namespaced_pod(SPACE)).metadata.resource_version
    cluster.control.reclaim_node("node-1")
    assert end_of(await kubernetes.ended(name)) == ("Failed", "BackoffLimitExceeded")
    changes = cluster.control.call(lambda: cluster.control.cluster.store.since(int(seen)))
    last = [change.object for change in changes if change.plural == "pods"][-1]["status"]
    assert (last["phase"], last["reason"]) == ("Failed", "Terminated")
    assert last["message"] == "Pod was terminated in response to imminent node shutdown."

    async def no_nodes():
        return not (await kubernetes.core.list_node()).items

    await until(no_nodes)


def quota(**hard):
    metadata = {"name": "compute", "namespace": SPACE}
    return [{"kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}]


async def test_a_quota_refuses_pods_until_there_is_room(cluster, kubernetes):
    cluster.apply(quota(**{"requests.nvidia.com/gpu": "0"}))
    cluster.control.add_node("gpu-1", L4, (GPU_TAINT,), **{"nvidia.com/gpu": "1"})
    name = await kubernetes.submit("true", limits=ONE_GPU)
    told = await kubernetes.told(name, "FailedCreate")
    assert told.startswith(f'Error creating: pods "{name}-')
    assert told.endswith(
        "is forbidden: exceeded quota: compute, requested: requests.nvidia.com/gpu=1, "
        "used: requests.nvidia.com/gpu=0, limited: requests.nvidia.com/gpu=0"
    )
    assert await kubernetes.pods(name) == []
    cluster.apply(quota(**{"requests.nvidia.com/gpu": "1"}))
    assert end_of(await kubernetes.ended(name))[0] == "Complete"


async def test_a_quota_counts_jobs_and_what_is_left_open(cluster, kubernetes):
    cluster.apply(quota(**{"count/jobs.batch": "1", "limits.memory": "1Gi"}))
    name = await kubernetes.submit("true")
    said_of_pod = await kubernetes.told(name, "FailedCreate")
    assert said_of_pod.endswith("is forbidden: failed quota: compute: must specify limits.memory for: main")
    with pytest.raises(ApiException) as refused:
        await kubernetes.submit("true")
    assert refused.value.status == 403
    assert "exceeded quota: compute, requested: count/jobs.batch=1, used: count/jobs.batch=1" in said(
        refused.value
    )


async def test_a_service_account_that_does_not_exist(kubernetes):
    name = await kubernetes.submit("true", pod={"serviceAccountName": "nobody"})
    told = await kubernetes.told(name, "FailedCreate")
    assert told.endswith('error looking up service account bench/nobody: serviceaccount "nobody" not found')
