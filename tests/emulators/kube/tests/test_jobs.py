import asyncio
import json

import pytest
from kubernetes_asyncio import client
from kubernetes_asyncio.client.exceptions import ApiException

from tests.emulators.kube.job_examples import SPACE, condition, end_of, job, terminated, until


async def test_a_job_succeeds_and_tells_everything(kubernetes):
    name = await kubernetes.submit("echo hello; echo again")
    done = await kubernetes.ended(name)
    assert end_of(done) == ("Complete", "CompletionsReached")
    assert done.status.succeeded == 1
    assert done.status.active is None
    assert done.status.start_time <= done.status.completion_time
    (pod,) = await kubernetes.pods(name)
    assert pod.status.phase == "Succeeded"
    assert (terminated(pod).exit_code, terminated(pod).reason) == (0, "Completed")
    assert pod.metadata.owner_references[0].name == name
    assert pod.spec.node_name == "node-1"
    assert await kubernetes.log(pod) == "hello\nagain\n"
    reasons = {reason for reason, _ in await kubernetes.reasons(pod.metadata.name)}
    assert reasons == {"Scheduled", "Pulled", "Created", "Started"}
    assert dict(await kubernetes.reasons(name))["Completed"] == "Job completed"


async def test_the_status_changes_as_on_a_real_server(kubernetes):
    made = await kubernetes.batch.create_namespaced_job(SPACE, job("true"))
    done = await kubernetes.ended(made.metadata.name)
    path = f"/apis/batch/v1/namespaces/{SPACE}/jobs?watch=true&timeoutSeconds=1"
    path += f"&resourceVersion={int(made.metadata.resource_version) - 1}"
    answer = await kubernetes.api.rest_client.pool_manager.get(
        kubernetes.api.configuration.host + path, headers={"Authorization": "Bearer admin-of-the-stand-in"}
    )
    events = [json.loads(line) for line in (await answer.read()).splitlines()]
    states = [event["object"]["status"] for event in events]
    shown = [(s.get("active"), s.get("ready"), s.get("succeeded"), "completionTime" in s) for s in states]
    assert shown[0] == (None, None, None, False)
    assert (1, 0, None, False) in shown
    assert (1, 1, None, False) in shown
    assert shown[-1] == (None, 0, 1, True)
    assert [c["type"] for c in states[-1]["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    assert events[-1]["object"]["metadata"]["resourceVersion"] == done.metadata.resource_version


async def test_pods_are_tried_again_up_to_the_limit(kubernetes):
    name = await kubernetes.submit("exit 137", backoffLimit=2)
    done = await kubernetes.ended(name)
    assert done.status.failed == 3
    assert len(await kubernetes.pods(name)) == 3


async def test_a_container_is_restarted_in_its_pod(kubernetes, tmp_path):
    script = f"echo try; [ -e {tmp_path}/again ] || {{ touch {tmp_path}/again; echo first; exit 3; }}"
    name = await kubernetes.submit(script, backoffLimit=3, pod={"restartPolicy": "OnFailure"})
    assert end_of(await kubernetes.ended(name))[0] == "Complete"
    (pod,) = await kubernetes.pods(name)
    assert pod.status.container_statuses[0].restart_count == 1
    assert await kubernetes.log(pod, previous=True) == "try\nfirst\n"
    assert await kubernetes.log(pod) == "try\n"


async def test_the_deadline_ends_running_pods(kubernetes):
    name = await kubernetes.submit("echo on; exec sleep 60", activeDeadlineSeconds=2)
    done = await kubernetes.ended(name)
    assert end_of(done) == ("Failed", "DeadlineExceeded")
    assert done.status.failed == 1
    assert await kubernetes.pods(name) == []
    assert "DeadlineExceeded" in dict(await kubernetes.reasons(name))


async def test_the_deadline_counts_while_the_job_waits(cluster, kubernetes):
    name = await kubernetes.submit("true", activeDeadlineSeconds=1, pod={"nodeSelector": {"gpu": "none"}})
    assert end_of(await kubernetes.ended(name)) == ("Failed", "DeadlineExceeded")


async def test_a_finished_job_goes_after_its_ttl(kubernetes):
    name = await kubernetes.submit("true", ttlSecondsAfterFinished=1)
    await kubernetes.gone(name)
    assert await kubernetes.pods(name) == []


async def test_cancelling_lets_the_pod_end_by_itself(cluster, kubernetes):
    name = await kubernetes.submit("trap 'echo bye; exit 0' TERM; echo on; while :; do sleep 0.05; done")
    pod = await kubernetes.speaking(name)
    following = asyncio.create_task(kubernetes.log(pod, follow=True))
    answer = await kubernetes.batch.delete_namespaced_job(
        name, SPACE, propagation_policy="Foreground", grace_period_seconds=30, _preload_content=False
    )
    metadata = (await answer.json())["metadata"]
    assert metadata["finalizers"] == ["foregroundDeletion"]
    assert "deletionTimestamp" in metadata
    await kubernetes.gone(name)
    assert await kubernetes.pods(name) == []
    assert (await following).endswith("bye\n")
    assert "Killing" in dict(await kubernetes.reasons(pod.metadata.name))


async def test_a_container_that_ignores_sigterm_is_killed_after_its_grace_period(kubernetes):
    script = "trap '' TERM; echo on; while :; do sleep 0.05; done"
    name = await kubernetes.submit(script, pod={"terminationGracePeriodSeconds": 1})
    await kubernetes.speaking(name)
    await kubernetes.batch.delete_namespaced_job(name, SPACE, propagation_policy="Background")
    await kubernetes.gone(name)

    async def no_pods():
        return not await kubernetes.pods(name)

    await until(no_pods)


async def test_without_a_policy_the_pods_are_orphaned_with_a_warning(cluster, kubernetes):
    name = await kubernetes.submit("exec sleep 60")
    await kubernetes.running(name)
    await kubernetes.batch.delete_namespaced_job(name, SPACE)
    await kubernetes.gone(name)
    (pod,) = await kubernetes.pods(name)
    assert not pod.metadata.owner_references
    assert cluster.control.warnings[-1].startswith("child pods are preserved by default")


async def test_a_precondition_keeps_another_job_of_that_name(kubernetes):
    name = await kubernetes.submit("true")
    wrong = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="another"))
    with pytest.raises(ApiException) as refused:
        await kubernetes.batch.delete_namespaced_job(name, SPACE, body=wrong)
    assert refused.value.status == 409


async def test_a_container_that_cannot_start_ends_with_start_error(kubernetes):
    name = await kubernetes.submit("", container={"command": ["/no/such/program"]})
    await kubernetes.ended(name)
    (pod,) = await kubernetes.pods(name)
    assert (terminated(pod).exit_code, terminated(pod).reason) == (128, "StartError")
    assert "/no/such/program" in terminated(pod).message
    assert condition(pod, "Ready").reason == "PodFailed"


async def test_variables_come_from_values_fields_and_secrets(cluster, kubernetes):
    cluster.apply(
        [{"kind": "Secret", "metadata": {"name": "key", "namespace": SPACE}, "data": {"k": "c2VjcmV0"}}]
    )
    env = [
        {"name": "PLAIN", "value": "one"},
        {"name": "BOTH", "value": "$(PLAIN)-two"},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "key", "key": "k"}}},
        {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "no", "key": "k", "optional": True}}},
    ]
    name = await kubernetes.submit("echo $PLAIN $BOTH $POD $APP $KEY ${NONE-unset}", container={"env": env})
    await kubernetes.ended(name)
    (pod,) = await kubernetes.pods(name)
    assert await kubernetes.log(pod) == f"one one-two {pod.metadata.name} lane secret unset\n"


async def test_a_missing_secret_is_waited_for(cluster, kubernetes):
    env = [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "key", "key": "k"}}}]
    name = await kubernetes.submit("echo $KEY", container={"env": env})

    def waits(pod):
        status = pod.status.container_statuses
        return (
            status
            and status[0].state.waiting
            and status[0].state.waiting.reason == "CreateContainerConfigError"
        )

    await kubernetes.pod(name, waits)
    cluster.apply(
        [{"kind": "Secret", "metadata": {"name": "key", "namespace": SPACE}, "data": {"k": "c2VjcmV0"}}]
    )
    assert end_of(await kubernetes.ended(name))[0] == "Complete"
