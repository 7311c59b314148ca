import asyncio
import json

from tests.emulators.kube.job_examples import PATIENCE_S, SPACE, refusal, said

JOBS = f"/apis/batch/v1/namespaces/{SPACE}/jobs"


async def stream(kubernetes, path, **query):
    query = "&".join(f"{name}={value}" for name, value in ({"watch": "True"} | query).items())
    headers = {"Authorization": "Bearer admin-of-the-stand-in"}
    pool = kubernetes.api.rest_client.pool_manager
    answer = await pool.get(f"{kubernetes.api.configuration.host}{path}?{query}", headers=headers)
    return answer.content


async def event_of(content):
    async with asyncio.timeout(PATIENCE_S):
        line = await content.readline()
    return json.loads(line) if line else None


async def test_an_object_that_leaves_the_selection_of_a_watch_is_sent_as_deleted(kubernetes):
    await kubernetes.submit("true", name="one", suspend=True)
    await kubernetes.told("one", "Suspended")
    content = await stream(kubernetes, JOBS, labelSelector="app%3Dlane")
    while (await event_of(content))["object"]["status"].get("conditions") is None:
        pass
    await kubernetes.batch.patch_namespaced_job("one", SPACE, {"metadata": {"labels": {"app": "other"}}})
    event = await event_of(content)
    assert event["type"] == "DELETED"
    assert event["object"]["metadata"]["labels"]["app"] == "lane"


async def test_bookmarks_come_where_they_are_asked_for(kubernetes):
    listed = await kubernetes.batch.list_namespaced_job(SPACE)
    version = listed.metadata.resource_version
    content = await stream(kubernetes, JOBS, allowWatchBookmarks="true", resourceVersion=version)
    event = await event_of(content)
    assert event["type"] == "BOOKMARK"
    assert int(event["object"]["metadata"]["resourceVersion"]) >= int(version)


async def test_a_forgotten_version_is_gone(cluster, kubernetes):
    version = (await kubernetes.batch.list_namespaced_job(SPACE)).metadata.resource_version
    await kubernetes.submit("true", suspend=True)
    cluster.control.compact()
    event = await event_of(await stream(kubernetes, JOBS, resourceVersion=version))
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert event["object"]["message"].startswith(f"too old resource version: {version} (")


async def test_pages_are_of_one_moment(cluster, kubernetes):
    for number in range(5):
        await kubernetes.submit("true", name=f"job-{number}", suspend=True)
    first = await kubernetes.batch.list_namespaced_job(SPACE, limit=2)
    await kubernetes.submit("true", name="job-9", suspend=True)
    token = first.metadata._continue
    assert first.metadata.remaining_item_count == 3
    rest = await kubernetes.batch.list_namespaced_job(SPACE, limit=4, _continue=token)
    names = [item.metadata.name for item in (*first.items, *rest.items)]
    assert names == [f"job-{number}" for number in range(5)]
    assert rest.metadata.resource_version == first.metadata.resource_version
    assert not rest.metadata._continue
    cluster.control.compact()
    refused = await refusal(kubernetes.batch.list_namespaced_job(SPACE, limit=2, _continue=token))
    assert refused.status == 410


async def test_label_and_field_selectors_choose_the_listed_pods(kubernetes):
    await kubernetes.submit("true", name="one")
    await kubernetes.ended("one")

    async def names(**query):
        return [
            pod.metadata.name for pod in (await kubernetes.core.list_namespaced_pod(SPACE, **query)).items
        ]

    assert len(await names(label_selector="app in (lane, other),job-name=one,!gpu")) == 1
    assert await names(label_selector="app!=lane") == []
    assert len(await names(field_selector="status.phase=Succeeded,spec.nodeName=node-1")) == 1
    assert await names(field_selector="status.phase!=Succeeded") == []
    refused = await refusal(names(field_selector="spec.color=red"))
    assert refused.status == 400
    assert said(refused).endswith("field label not supported: spec.color")
