"""Who may do what in the Kubernetes stand-in: real Roles, the server's own words."""

import pytest
from kubernetes_asyncio import client, config

from tests.emulators.kube.job_examples import SPACE, connected, end_of, refusal, said
from tests.emulators.kube.server import kube

ROLE = """
apiVersion: v1
kind: Namespace
metadata: {name: prefect}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: worker, namespace: prefect}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: worker, namespace: bench}
rules:
- {apiGroups: [batch], resources: [jobs], verbs: [create, delete, get, list, watch]}
- {apiGroups: [""], resources: [pods], verbs: [list, watch]}
- {apiGroups: [""], resources: [pods/log], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: worker, namespace: bench}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: worker}
subjects: [{kind: ServiceAccount, name: worker, namespace: prefect}]
"""
JOBS = f"/apis/batch/v1/namespaces/{SPACE}/jobs"


@pytest.fixture
def cluster():
    with kube() as made:
        yield made


@pytest.fixture
async def kubernetes(cluster):
    async with connected(cluster) as made:
        yield made


async def test_the_worker_s_role_is_enough_and_no_more(cluster):
    cluster.apply(ROLE)
    async with connected(cluster, cluster.token("prefect", "worker")) as worker:
        name = await worker.submit("echo hello")
        assert end_of(await worker.ended(name))[0] == "Complete"
        (pod,) = await worker.pods(name)
        assert await worker.log(pod) == "hello\n"
        user = 'User "system:serviceaccount:prefect:worker" cannot'
        refused = await refusal(worker.core.list_namespaced_event(SPACE))
        assert refused.status == 403
        assert said(refused) == (
            f'events is forbidden: {user} list resource "events" in API group "" in the namespace "bench"'
        )
        refused = await refusal(worker.core.delete_namespaced_pod(pod.metadata.name, SPACE))
        assert said(refused) == (
            f'pods "{pod.metadata.name}" is forbidden: {user} delete resource "pods" in API group "" '
            'in the namespace "bench"'
        )
        refused = await refusal(worker.batch.list_namespaced_job("default"))
        assert said(refused).startswith(
            f'jobs.batch is forbidden: {user} list resource "jobs" in API group "batch"'
        )
        refused = await refusal(worker.core.list_node())
        assert said(refused).endswith('cannot list resource "nodes" in API group "" at the cluster scope')
        await worker.batch.delete_namespaced_job(name, SPACE, propagation_policy="Background")
        await worker.gone(name)
    assert {request.who for request in cluster.control.asked("POST", JOBS)} == {
        "system:serviceaccount:prefect:worker"
    }


async def test_rights_can_be_asked_for(cluster):
    cluster.apply(ROLE)
    async with connected(cluster, cluster.token("prefect", "worker")) as worker:

        async def may(verb, resource, group=""):
            attributes = {"verb": verb, "resource": resource, "group": group, "namespace": SPACE}
            body = {"spec": {"resourceAttributes": attributes}}
            answer = await client.AuthorizationV1Api(worker.api).create_self_subject_access_review(body)
            return answer.status.allowed

        assert await may("create", "jobs", "batch")
        assert not await may("create", "pods")


async def test_an_unknown_token_is_refused_and_nobody_may_do_nothing(cluster):
    async with connected(cluster, "wrong") as stranger:
        refused = await refusal(stranger.batch.list_namespaced_job(SPACE))
        assert (refused.status, said(refused)) == (401, "Unauthorized")
    async with connected(cluster, "") as nobody:
        refused = await refusal(nobody.batch.list_namespaced_job(SPACE))
        assert refused.status == 403
        assert 'User "system:anonymous" cannot list' in said(refused)


async def test_a_token_comes_from_the_api_too(cluster, kubernetes):
    cluster.apply(ROLE)
    asked = {"spec": {"audiences": [], "expirationSeconds": 600}}
    answer = await kubernetes.core.create_namespaced_service_account_token("worker", "prefect", asked)
    async with connected(cluster, answer.status.token) as worker:
        assert (await worker.batch.list_namespaced_job(SPACE)).items == []


async def test_a_kubeconfig_leads_here(cluster, tmp_path):
    path = cluster.kubeconfig(tmp_path / "config")
    configuration = client.Configuration()
    await config.load_kube_config(str(path), client_configuration=configuration)
    async with client.ApiClient(configuration) as api:
        assert (await client.BatchV1Api(api).list_namespaced_job(SPACE)).items == []
        assert (await client.VersionApi(api).get_code()).git_version == "v1.36.2"
        found = await client.BatchV1Api(api).get_api_resources()
        assert {"jobs"} <= {resource.name for resource in found.resources}
