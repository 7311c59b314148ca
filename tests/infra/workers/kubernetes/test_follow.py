"""What is said of a pod that waits on its node, and of a pod and a job that are gone."""

import datetime as dt
import logging
import re
import uuid

import anyio
import pytest
from kubernetes_asyncio.client import ApiClient
from kubernetes_asyncio.client.exceptions import ApiException
from prefect import states
from prefect.client.schemas.objects import FlowRun

from infra.workers.base.outcome import StartTimes
from infra.workers.kubernetes.configuration import KubernetesJobsConfiguration
from infra.workers.kubernetes.follow import KubernetesFollow
from infra.workers.kubernetes.settings import KubernetesSettings
from infra.workers.kubernetes.view import View

NEW = {"metadata": {"name": "lane-1-x", "labels": {}}, "spec": {}, "status": {}}
TTL_S = 600
PLACED = NEW | {"spec": {"nodeName": "node-7"}}


class Api:
    """A cluster that has no events, and no such pod's log any more."""

    async def events(self, name):
        return []

    async def delete(self, name, grace_s):
        return False

    async def log(self, pod, container):
        raise ApiException(status=404, reason=f'pods "{pod}" not found')


async def follow_of(pod, start_times=None, view=None):
    async def nothing(*_):
        return None

    return KubernetesFollow(
        run=FlowRun(flow_id=uuid.UUID(int=1), state=states.Pending()),
        job_id="default:lane-1",
        name="lane-1",
        log=logging.LoggerAdapter(logging.getLogger("test"), {}),
        set_labels=nothing,
        configuration=KubernetesJobsConfiguration.model_construct(
            schedule_within_s=600, timeout_s=60, ttl_s=TTL_S, grace_s=0
        ),
        api=Api(),
        view=view,
        settings=KubernetesSettings(explain_s=0),
        send=nothing,
        pod=pod,
        start_times=start_times,
    )


@pytest.mark.parametrize(
    ("pod", "level", "words"),
    [
        (PLACED, logging.INFO, "node node-7 creates the container: it has not started."),
        (NEW, logging.WARNING, "the pod has no node yet."),
    ],
)
async def test_only_a_pod_without_a_node_is_warned_of(caplog, pod, level, words):
    caplog.set_level(logging.INFO)
    follow = await follow_of(pod)
    created = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=30)
    job = {"metadata": {"creationTimestamp": created.isoformat()}}
    for _ in range(2):
        assert await follow._overdue(job) is None
    (said,) = caplog.records
    assert said.levelno == level and said.message.endswith(words)
    assert re.search(r"\b3\d s .*\b5[67]\d s\b", said.message), said.message  # of a busy machine


async def test_a_pod_that_is_gone_took_its_lines_along_which_is_no_warning(caplog):
    caplog.set_level(logging.INFO)
    follow = await follow_of(PLACED, StartTimes(1.0, 2.0))
    await follow._show_log()
    (said,) = caplog.records
    assert (said.levelno, said.message) == (
        logging.INFO,
        "The pod no longer exists, so its container's log is lost.",
    )


@pytest.fixture
async def view():
    async with ApiClient() as client:
        yield View(client, "default", KubernetesSettings(), lambda text: None)


def job_of():
    created = dt.datetime.now(dt.UTC).isoformat()
    return {"metadata": {"name": "lane-1", "creationTimestamp": created}, "spec": {}, "status": {}}


@pytest.mark.parametrize("seen_ago_s", [None, TTL_S + 1])
@pytest.mark.parametrize("cancelled", [True, False])
async def test_a_job_that_the_cluster_may_have_forgotten_is_not_said_to_be_deleted(
    view, seen_ago_s, cancelled
):
    """It ended while no worker looked, and Kubernetes deletes what ended ttl_s ago."""
    follow = await follow_of(None, view=view)
    if seen_ago_s:
        follow.seen_at = anyio.current_time() - seen_ago_s
    if cancelled:
        follow.cancel()
    ended = await follow.to_the_end()
    assert ended.name == ("Cancelled" if cancelled else "Lost") and "deleted" not in ended.message
    assert ended.message.endswith("The Kubernetes job default:lane-1 is gone, and how it ended is not known.")
    assert ended.message.startswith("Cancelled from Prefect, but its end was not observed: " * cancelled)


@pytest.mark.parametrize("cancelled", [True, False])
async def test_a_job_that_went_while_it_was_seen_was_deleted(view, cancelled):
    job = job_of()
    view.take(job)
    follow = await follow_of(None, view=view)
    if cancelled:
        follow.cancel()  # it is gone before the view knows
    async with anyio.create_task_group() as group:

        async def deletes():
            while follow.seen_at is None:
                await anyio.sleep(0.001)
            view._change("jobs", "DELETED", job)

        group.start_soon(deletes)
        with anyio.fail_after(20):
            ended = await follow.to_the_end()
    assert ended.name == ("Cancelled" if cancelled else "PodLost") and "deleted" in ended.message
    assert not follow.stopped
