import asyncio

import pytest

from tests.emulators.kube.job_examples import SPACE, job, refusal, said, until


def spoiled(change):
    body = job("true")
    change(body["spec"], body["spec"]["template"]["spec"], body["spec"]["template"]["spec"]["containers"][0])
    return body


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        (
            lambda job, pod, main: pod.pop("restartPolicy"),
            422,
            "spec.template.spec.restartPolicy: Required value: ",
        ),
        (
            lambda job, pod, main: main.pop("image"),
            422,
            "spec.template.spec.containers[0].image: Required value",
        ),
        (
            lambda job, pod, main: job.update(backoffLimit=-1),
            422,
            "spec.backoffLimit: Invalid value: -1: must be",
        ),
        (
            lambda job, pod, main: job.update(backoffLimit="0"),
            400,
            "json: cannot unmarshal string into Go struct field JobSpec.spec.backoffLimit of type int32",
        ),
        (
            lambda job, pod, main: main.update(resources={"limits": {"memory": "12Gx"}}),
            400,
            'Job in version "v1" cannot be handled as a Job: quantities must match the regular expression',
        ),
        (
            lambda job, pod, main: main.update(resources={"requests": {"nvidia.com/gpu": 1}}),
            422,
            "resources.limits: Required value: Limit must be set for non overcommitable resources",
        ),
        (
            lambda job, pod, main: main.update(resources={"requests": {"cpu": 2}, "limits": {"cpu": 1}}),
            422,
            'resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
        ),
        (
            lambda job, pod, main: main.update(volumeMounts=[{"name": "shm", "mountPath": "/dev/shm"}]),
            422,
            'spec.template.spec.containers[0].volumeMounts[0].name: Not found: "shm"',
        ),
        (
            lambda job, pod, main: pod.update(nodeSelector={"gpu": True}),
            400,
            "cannot unmarshal bool into Go struct",
        ),
    ],
)
async def test_a_job_that_makes_no_sense_is_refused(kubernetes, change, code, text):
    refused = await refusal(kubernetes.batch.create_namespaced_job(SPACE, spoiled(change)))
    assert refused.status == code
    assert text in said(refused)


async def test_labels_and_names_are_checked(kubernetes):
    body = job("true")
    body["metadata"]["labels"]["a"] = "b c"
    refused = await refusal(kubernetes.batch.create_namespaced_job(SPACE, body))
    assert refused.status == 422
    assert 'metadata.labels: Invalid value: "b c": a valid label must be' in said(refused)
    refused = await refusal(kubernetes.submit("true", name="Lane_1"))
    assert 'metadata.name: Invalid value: "Lane_1": a lowercase RFC 1123 subdomain' in said(refused)


async def test_unknown_fields_are_dropped_with_a_warning(cluster, kubernetes):
    body = spoiled(lambda job, pod, main: pod.update(parallelism=1, completions=1))
    _, _, headers = await kubernetes.batch.create_namespaced_job_with_http_info(SPACE, body)
    assert headers.getall("Warning") == [
        f'299 - "unknown field \\"spec.template.spec.{name}\\""' for name in ("parallelism", "completions")
    ]
    assert cluster.control.warnings[0] == 'unknown field "spec.template.spec.parallelism"'
    strictly = kubernetes.batch.create_namespaced_job(SPACE, body, field_validation="Strict")
    refused = await refusal(strictly)
    assert refused.status == 400
    assert 'strict decoding error: unknown field "spec.template.spec.parallelism"' in said(refused)


async def test_a_namespace_that_does_not_exist(kubernetes):
    refused = await refusal(kubernetes.batch.create_namespaced_job("none", job("true")))
    assert (refused.status, said(refused)) == (404, 'namespaces "none" not found')


async def test_a_namespace_takes_all_that_is_in_it(cluster, kubernetes):
    await kubernetes.core.create_namespace({"metadata": {"name": "mine"}})
    await kubernetes.batch.create_namespaced_job("mine", job("exec sleep 60"))
    await until(lambda: asyncio.sleep(0, cluster.control.pods()))
    await kubernetes.core.delete_namespace("mine")

    async def gone():
        return "mine" not in [item.metadata.name for item in (await kubernetes.core.list_namespace()).items]

    await until(gone)
    assert cluster.control.pods() == []
