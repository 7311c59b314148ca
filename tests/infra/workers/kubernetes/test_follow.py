"""What is said of a pod that waits on its node, and of one that is gone before its lines were read."""

import datetime as dt
import logging
import uuid

import pytest
from kubernetes_asyncio.client.exceptions import ApiException
from prefect import states
from prefect.client.schemas.objects import FlowRun

from infra.workers.base.outcome import StartTimes
from infra.workers.kubernetes.configuration import KubernetesJobsConfiguration
from infra.workers.kubernetes.follow import KubernetesFollow
from infra.workers.kubernetes.settings import KubernetesSettings

NEW = {"metadata": {"name": "lane-1-x", "labels": {}}, "spec": {}, "status": {}}
PLACED = NEW | {"spec": {"nodeName": "node-7"}}


class Api:
    """A cluster that has no events, and no such pod's log any more."""

    async def events(self, name):
        return []

    async def log(self, pod, container):
        raise ApiException(status=404, reason=f'pods "{pod}" not found')


async def follow_of(pod, start_times=None):
    async def nothing(*_):
        return None

    return KubernetesFollow(
        run=FlowRun(flow_id=uuid.UUID(int=1), state=states.Pending()),
        job_id="default:lane-1",
        name="lane-1",
        log=logging.LoggerAdapter(logging.getLogger("test"), {}),
        set_labels=nothing,
        configuration=KubernetesJobsConfiguration.model_construct(schedule_within_s=600, timeout_s=60),
        api=Api(),
        view=None,
        settings=KubernetesSettings(explain_s=0),
        send=nothing,
        pod=pod,
        start_times=start_times,
    )


@pytest.mark.parametrize(
    ("pod", "level", "words"),
    [
        (PLACED, logging.INFO, "node node-7 makes the container: it has not begun."),
        (NEW, logging.WARNING, "no node has taken the pod yet."),
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
    assert "has waited 30 s, 570 s are left" in said.message


async def test_a_pod_that_is_gone_took_its_lines_along_which_is_no_warning(caplog):
    caplog.set_level(logging.INFO)
    follow = await follow_of(PLACED, StartTimes(1.0, 2.0))
    await follow._show_log()
    (said,) = caplog.records
    assert (said.levelno, said.message) == (
        logging.INFO,
        "The pod is gone, and what its container printed with it.",
    )
