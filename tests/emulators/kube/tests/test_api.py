"""The API of the Kubernetes stand-in: watches, pages, selectors and faults."""

import asyncio
import json

import aiohttp
import pytest
from kubernetes_asyncio import watch

from tests.emulators.kube.job_examples import PATIENCE_S, SPACE, connected, end_of, refusal, said, until
from tests.emulators.kube.server import kube

JOBS = f"/apis/batch/v1/namespaces/{SPACE}/jobs"


@pytest.fixture
def cluster():
    with kube() as made:
        yield made


@pytest.fixture
async def kubernetes(cluster):
    async with connected(cluster) as made:
        yield made


async def stream(kubernetes, path, **query):
    """An open watch, as lines; the caller reads as many as it wants."""
    query = "&".join(f"{name}={value}" for name, value in ({"watch": "True"} | query).items())
    headers = {"Authorization": "Bearer admin-of-the-stand-in"}
    pool = kubernetes.api.rest_client.pool_manager
    answer = await pool.get(f"{kubernetes.api.configuration.host}{path}?{query}", headers=headers)
    return answer.content


async def event_of(content):
    async with asyncio.timeout(PATIENCE_S):
        line = await content.readline()
    return json.loads(line) if line else None


async def test_a_watch_goes_on_from_a_version(kubernetes):
    await kubernetes.submit("true", name="before", suspend=True)
    listed = await kubernetes.batch.list_namespaced_job(SPACE)
    await kubernetes.submit("true", name="after")
    seen = []
    following = watch.Watch()
    version = listed.metadata.resource_version
    async for event in following.stream(
        kubernetes.batch.list_namespaced_job, SPACE, label_selector="app=lane", resource_version=version
    ):
        seen.append((event["type"], event["object"].metadata.name))
        if event["object"].status.succeeded:
            break
    await following.close()
    assert seen[0] == ("ADDED", "after")
    assert set(seen[1:]) == {("MODIFIED", "after")}


async def test_a_watch_without_a_version_begins_with_what_is_there(kubernetes):
    await kubernetes.submit("true", name="there", suspend=True)
    content = await stream(kubernetes, JOBS)
    event = await event_of(content)
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "there")


async def test_what_leaves_a_selection_is_deleted_from_it(kubernetes):
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


async def test_a_broken_watch_ends(cluster, kubernetes):
    content = await stream(kubernetes, JOBS)
    await until(lambda: asyncio.sleep(0, cluster.control.asked("GET", "*/jobs")))
    cluster.control.break_watches()
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(aiohttp.ClientPayloadError):
            await content.readline()


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


async def test_selectors_choose(kubernetes):
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


async def test_a_lost_answer_leaves_the_job(cluster, kubernetes):
    fault = cluster.control.fault("POST", "*/jobs", 0, after=True)
    with pytest.raises((aiohttp.ServerDisconnectedError, ConnectionResetError)):
        await kubernetes.submit("true", name="lane-1")
    assert fault.hits == 1
    refused = await refusal(kubernetes.submit("true", name="lane-1"))
    assert refused.status == 409
    assert len((await kubernetes.batch.list_namespaced_job(SPACE)).items) == 1


@pytest.mark.parametrize("code", [429, 500, 502, 503])
async def test_a_fault_is_answered_as_often_as_said(cluster, kubernetes, code):
    cluster.control.fault("GET", "*/jobs", code, times=2)
    for _ in range(2):
        assert (await refusal(kubernetes.batch.list_namespaced_job(SPACE))).status == code
    assert (await kubernetes.batch.list_namespaced_job(SPACE)).items == []


async def test_throttling_says_when_to_come_back(cluster, kubernetes):
    cluster.control.throttle(retry_after_s=7)
    refused = await refusal(kubernetes.batch.list_namespaced_job(SPACE))
    assert (refused.status, refused.headers["Retry-After"]) == (429, "7")


async def test_the_api_is_away_and_comes_back_to_the_same_port(cluster, kubernetes):
    name = await kubernetes.submit("true", name="lane-1")
    content = await stream(kubernetes, JOBS)
    await event_of(content)
    with cluster.control.away("refused"), pytest.raises(OSError):
        await kubernetes.job(name)
    with cluster.control.away("503"):
        assert (await refusal(kubernetes.job(name))).status == 503
    assert end_of(await kubernetes.ended(name))[0] == "Complete"


async def test_every_request_is_kept(cluster, kubernetes):
    await kubernetes.submit("true", name="lane-1")
    (request,) = cluster.control.asked("POST", JOBS)
    assert (request.who, request.status) == ("kubernetes-admin", 201)
    assert request.body["metadata"]["name"] == "lane-1"
