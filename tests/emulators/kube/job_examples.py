"""What the tests of the Kubernetes stand-in ask for, and how they wait for it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from kubernetes_asyncio import client
from kubernetes_asyncio.client.exceptions import ApiException

from tests.emulators.kube.server import Kube

SPACE = "bench"
PATIENCE_S = 60  # a machine may be slow; what never comes is still found


def job(
    script: str, *, image: str = "bench/cpu:1", limits: dict[str, Any] | None = None, **options: Any
) -> dict:
    """A Job whose only container runs a shell script; `pod` goes to the pod's spec, the rest to the Job's."""
    name = options.pop("name", None)
    pod = options.pop("pod", {})
    container = options.pop("container", {})
    container = {"name": "main", "image": image, "command": ["sh", "-c", script]} | container
    container |= {"resources": {"limits": limits}} if limits else {}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [container]} | pod
    labels = {"app": "lane"}
    metadata = {"labels": labels} | ({"name": name} if name else {"generateName": "lane-"})
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {"metadata": metadata, "spec": {"backoffLimit": 0, "template": template} | options}


class Client:
    """The real client, logged in with a token."""

    def __init__(self, api: client.ApiClient) -> None:
        self.api, self.batch, self.core = api, client.BatchV1Api(api), client.CoreV1Api(api)

    async def submit(self, *args: Any, **options: Any) -> str:
        """Creates a Job and returns its name."""
        made = await self.batch.create_namespaced_job(SPACE, job(*args, **options))
        return made.metadata.name

    async def job(self, name: str) -> Any:
        return await self.batch.read_namespaced_job(name, SPACE)

    async def pods(self, name: str) -> list[Any]:
        return (await self.core.list_namespaced_pod(SPACE, label_selector=f"job-name={name}")).items

    async def pod(self, name: str, where: Callable[[Any], Any] = bool) -> Any:
        """The Job's only pod, once it is so."""

        async def found() -> Any:
            pods = await self.pods(name)
            return pods[0] if pods and where(pods[0]) else None

        return await until(found)

    async def ended(self, name: str) -> Any:
        """The Job, once it is complete or has failed."""

        async def found() -> Any:
            job = await self.job(name)
            return job if end_of(job) else None

        return await until(found)

    async def running(self, name: str) -> Any:
        """The Job's pod, once it runs."""
        return await self.pod(name, lambda pod: pod.status.phase == "Running")

    async def speaking(self, name: str) -> Any:
        """The Job's pod, once it has logged something: then its script has set up what it sets up first."""
        pod = await self.running(name)

        async def said() -> Any:
            return await self.log(pod)

        await until(said)
        return pod

    async def log(self, pod: Any, **options: Any) -> str:
        """The pod's log, as it is."""
        options |= {"_preload_content": False}
        answer = await self.core.read_namespaced_pod_log(pod.metadata.name, SPACE, **options)
        return (await answer.read()).decode()

    async def reasons(self, about: str) -> list[tuple[str, str]]:
        """Reason and message of the events about an object."""
        selector = f"involvedObject.name={about}"
        events = (await self.core.list_namespaced_event(SPACE, field_selector=selector)).items
        return [(event.reason, event.message) for event in events]

    async def told(self, about: str, reason: str, part: str = "") -> str:
        """The message of an event, once one with that part is there."""

        async def found() -> str | None:
            told = await self.reasons(about)
            return next((message for word, message in told if word == reason and part in message), None)

        return await until(found)

    async def gone(self, name: str) -> None:
        """Returns when the Job is no more."""

        async def found() -> bool:
            with contextlib.suppress(ApiException):
                await self.job(name)
                return False
            return True

        await until(found)


@contextlib.asynccontextmanager
async def connected(kube: Kube, token: str | None = None) -> AsyncIterator[Client]:
    """A client of its own, as the administrator or as whom the token names; "" for nobody."""
    configuration = client.Configuration(host=kube.url)
    if token != "":
        configuration.api_key = {"BearerToken": f"Bearer {token or kube.admin_token}"}
    async with client.ApiClient(configuration) as api:
        yield Client(api)


async def until(found: Callable[[], Awaitable[Any]]) -> Any:
    """What is found at last; TimeoutError after a generous while."""
    async with asyncio.timeout(PATIENCE_S):
        while not (value := await found()):
            await asyncio.sleep(0.02)
        return value


def end_of(job: Any) -> tuple[str, str | None] | None:
    """Type and reason of the condition that ended it."""
    ends = [c for c in job.status.conditions or [] if c.type in ("Complete", "Failed")]
    return (ends[0].type, ends[0].reason) if ends else None


def terminated(pod: Any) -> Any:
    """The state in which its container ended; None while it has not."""
    statuses = pod.status.container_statuses
    return statuses[0].state.terminated if statuses else None


def condition(pod: Any, type_: str) -> Any:
    """One of its conditions."""
    return next((c for c in pod.status.conditions or [] if c.type == type_), None)


def said(error: ApiException) -> str:
    """The text of a refusal."""
    return json.loads(error.body)["message"]


async def refusal(call: Awaitable[Any]) -> ApiException:
    """What a call is refused with; AssertionError where it is not."""
    try:
        await call
    except ApiException as error:
        return error
    raise AssertionError("the call was not refused")
