import pytest
from kubernetes_asyncio.client.exceptions import ApiException

from tests.emulators.kube.job_examples import SPACE, condition, connected, end_of, said
from tests.emulators.kube.server import kube

ACCELERATOR = "cloud.google.com/gke-accelerator"
L4 = {ACCELERATOR: "nvidia-l4"}
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
ONE_GPU = {"nvidia.com/gpu": 1}
SLEEP = "echo on; exec sleep 60"
AFTERWARDS = "no new claims to deallocate, preemption: 0/1 nodes are available: 1 "


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


async def test_a_pod_that_fits_no_node_is_told_the_insufficient_resource(kubernetes):
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


async def test_a_quota_counts_jobs_and_refuses_unspecified_resources(cluster, kubernetes):
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
