from tests.emulators.kube.job_examples import SPACE, connected, end_of, refusal, said

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


async def test_unknown_tokens_are_refused_and_anonymous_clients_have_no_rights(cluster):
    async with connected(cluster, "wrong") as stranger:
        refused = await refusal(stranger.batch.list_namespaced_job(SPACE))
        assert (refused.status, said(refused)) == (401, "Unauthorized")
    async with connected(cluster, "") as nobody:
        refused = await refusal(nobody.batch.list_namespaced_job(SPACE))
        assert refused.status == 403
        assert 'User "system:anonymous" cannot list' in said(refused)
