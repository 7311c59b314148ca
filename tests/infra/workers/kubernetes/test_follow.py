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
from tasks.dispatch.job_end import JobEnd
from tasks.dispatch.lane import HOPELESS

NEW = {"metadata": {"name": "lane-1-x", "labels": {}}, "spec": {}, "status": {}}
TTL_S = 600
PLACED = NEW | {"spec": {"nodeName": "node-7"}}


class Api:
    def __init__(self, *events):
        self.said, self.asked = events, 0

    async def events(self, name):
        self.asked += 1
        return [*self.said]

    async def delete(self, name, grace_s):
        return False

    async def log(self, pod, container):
        raise ApiException(status=404, reason=f'pods "{pod}" not found')


async def follow_of(pod, start_times=None, view=None, api=None, **asked):
    async def nothing(*_):
        return None

    return KubernetesFollow(
        run=FlowRun(flow_id=uuid.UUID(int=1), state=states.Pending()),
        job_id="default:lane-1",
        name="lane-1",
        log=logging.LoggerAdapter(logging.getLogger("test"), {}),
        set_labels=nothing,
        configuration=KubernetesJobsConfiguration.model_construct(
            **{"schedule_within_s": 600, "timeout_s": 60, "ttl_s": TTL_S, "grace_s": 0, "memory_mib": 300}
            | asked
        ),
        api=api or Api(),
        view=view,
        settings=KubernetesSettings(explain_s=0, poll_s=0.05),
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
async def test_a_job_that_the_cluster_might_have_forgotten_is_not_reported_as_deleted(
    view, seen_ago_s, cancelled
):
    """It ended unwatched, and Kubernetes deletes it after ttl_s."""
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


def pod_of(state, phase, *, created_ago_s=0.0, **metadata):
    created = (dt.datetime.now(dt.UTC) - dt.timedelta(seconds=created_ago_s)).isoformat()
    return {
        "metadata": {
            "name": "lane-1-x",
            "labels": {"job-name": "lane-1"},
            "creationTimestamp": created,
            **metadata,
        },
        "spec": {"nodeName": "node-7"},
        "status": {"phase": phase, "containerStatuses": [{"name": "prefect-job", "state": state}]},
    }


def at(seconds):
    return (dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds)).isoformat()


RUNS = {"running": {"startedAt": "2026-11-22T10:00:30Z"}}
ENDED = {
    "terminated": {
        "startedAt": "2026-11-22T10:00:30Z",
        "finishedAt": "2026-11-22T10:00:42Z",
        "exitCode": 0,
        "reason": "Completed",
    }
}


async def vanished(view, *steps, **asked):
    """Follow a job that is deleted while its pod runs; `steps` happen to the pod then."""
    job = job_of()
    view._change("pods", "ADDED", pod_of(RUNS, "Running"))
    view.take(job)
    follow = await follow_of(None, view=view, **asked)
    seen = []
    async with anyio.create_task_group() as group:

        async def happens():
            while follow.seen_at is None or follow.start_times is None:
                await anyio.sleep(0.001)
            view._change("jobs", "DELETED", job)
            for change, pod in steps:
                await anyio.sleep(0.2)
                seen.append(change)
                view._change("pods", change, pod)

        group.start_soon(happens)
        with anyio.fail_after(20):
            ended = await follow.to_the_end()
        assert seen == [change for change, _ in steps], "it waits for all that happens to the pod"
    assert not view.pods, "and keeps nothing of it"
    return follow, ended


async def test_a_job_deleted_in_the_background_ends_when_its_pod_has_ended(view):
    """So the engine's words come first, and the worker's stay."""
    leaving = pod_of(RUNS, "Running", deletionTimestamp=at(30))
    over = pod_of(ENDED, "Failed", deletionTimestamp=at(30))
    follow, ended = await vanished(
        view, ("MODIFIED", leaving), ("MODIFIED", over), grace_s=30, timeout_s=10**9
    )
    assert ended.name == "PodLost" and "was deleted outside of Prefect before it ended" in ended.message
    assert follow.machine_time.ended == dt.datetime(2026, 11, 22, 10, 0, 42, tzinfo=dt.UTC)


async def test_a_pod_that_does_not_end_in_its_grace_is_not_waited_for(view):
    leaving = pod_of(RUNS, "Running", deletionTimestamp=at(-60))
    _, ended = await vanished(view, ("MODIFIED", leaving), timeout_s=10**9)
    assert ended.name == "PodLost"


async def test_an_orphaned_pod_is_followed_to_its_own_end(view):
    """As after `kubectl delete job --cascade=orphan`: a successor would measure next to it."""
    _, ended = await vanished(view, ("MODIFIED", pod_of(ENDED, "Succeeded")))
    assert (ended.name, ended.exit_code) == ("Exited", 0)


async def test_an_orphaned_pod_that_runs_on_past_its_time_gets_no_successor(view):
    old = pod_of(RUNS, "Running", created_ago_s=4000)
    _, ended = await vanished(view, ("MODIFIED", old))
    assert ended.name == "Unseen" and "lane-1-x runs on past its time: delete it by hand" in ended.message


async def test_a_finished_job_has_the_times_of_its_container(view):
    job = job_of() | {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    view._change("pods", "ADDED", pod_of(ENDED, "Succeeded"))
    view.take(job)
    follow = await follow_of(None, view=view)
    assert (await follow.to_the_end()).name == "Exited"
    began = dt.datetime.fromisoformat(job["metadata"]["creationTimestamp"])
    assert follow.machine_time.began == began
    assert follow.machine_time.ended == dt.datetime(2026, 11, 22, 10, 0, 42, tzinfo=dt.UTC)


def failed_create(message):
    return {"reason": "FailedCreate", "message": f"Error creating: {message}"}


FORBIDDEN = 'pods "x" is forbidden: error looking up service account a/b: serviceaccount "b" not found'


@pytest.mark.parametrize(
    ("event", "name"),
    [
        (failed_create(FORBIDDEN), "PodRefused"),
        (
            failed_create('pods "x" is forbidden: no PriorityClass with name high was found'),
            "PodRefused",
        ),
        (failed_create('pods "x" is forbidden: violates PodSecurity "restricted:latest"'), "PodRefused"),
        (failed_create('pods "x" is forbidden: exceeded quota: few, requested: pods=1'), None),
        (failed_create("Internal error occurred: failed calling webhook: connection refused"), None),
    ],
)
async def test_a_pod_that_is_refused_for_good_is_not_waited_for(event, name):
    job = {"metadata": {"creationTimestamp": at(-6)}}
    outcome = await (await follow_of(None, api=Api(event)))._overdue(job)
    assert (outcome and outcome.name) == name
    if outcome:
        assert JobEnd(outcome.cause.value) in HOPELESS, "the next job would be refused, too"


async def test_events_of_a_job_without_a_pod_are_asked_for_less_and_less_often():
    api = Api(failed_create("exceeded quota: few"))
    follow = await follow_of(None, api=api)
    follow._explained = "the job has no pod yet"
    for _ in range(50):
        await follow._overdue({"metadata": {"creationTimestamp": at(-6)}})
    assert api.asked == 1


BROKEN = {"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "s" not found'}}


@pytest.mark.parametrize(("waited_s", "name"), [(10, None), (41, "Unfit")])
async def test_a_container_that_cannot_be_made_has_no_more_time_than_the_job_has_to_start(waited_s, name):
    follow = await follow_of(pod_of(BROKEN, "Pending"), schedule_within_s=40)
    outcome = await follow._overdue({"metadata": {"creationTimestamp": at(-waited_s)}})
    assert (outcome and outcome.name) == name
    if outcome:
        assert JobEnd(outcome.cause.value) in HOPELESS, "the next job lacks the same secret"
