"""Jobs and a client for tests of the Kubernetes emulator."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from kubernetes_asyncio import client
from kubernetes_asyncio.client.exceptions import ApiException

from tests.emulators.kube.server import Kube

SPACE = "bench"
PATIENCE_S = 60  # generous, because a machine can be slow


def job(
    script: str, *, image: str = "bench/cpu:1", limits: dict[str, Any] | None = None, **options: Any
) -> dict:
    """Return a Job of one container with a shell script; `pod` goes to the pod's spec, the rest to the Job's."""
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
    def __init__(self, api: client.ApiClient) -> None:
        self.api, self.batch, self.core = api, client.BatchV1Api(api), client.CoreV1Api(api)

    async def submit(self, *args: Any, **options: Any) -> str:
        made = await self.batch.create_namespaced_job(SPACE, job(*args, **options))
        return made.metadata.name

    async def job(self, name: str) -> Any:
        return await self.batch.read_namespaced_job(name, SPACE)

    async def pods(self, name: str) -> list[Any]:
        return (await self.core.list_namespaced_pod(SPACE, label_selector=f"job-name={name}")).items

    async def pod(self, name: str, where: Callable[[Any], Any] = bool) -> Any:
        async def found() -> Any:
            pods = await self.pods(name)
            return pods[0] if pods and where(pods[0]) else None

        return await until(found)

    async def ended(self, name: str) -> Any:
        async def found() -> Any:
            job = await self.job(name)
            return job if end_of(job) else None

        return await until(found)

    async def running(self, name: str) -> Any:
        return await self.pod(name, lambda pod: pod.status.phase == "Running")

    async def speaking(self, name: str) -> Any:
        """Return the Job's pod once it has logged: then its script has finished its set-up."""
        pod = await self.running(name)

        async def said() -> Any:
            return await self.log(pod)

        await until(said)
        return pod

    async def log(self, pod: Any, **options: Any) -> str:
        options |= {"_preload_content": False}
        answer = await self.core.read_namespaced_pod_log(pod.metadata.name, SPACE, **options)
        return (await answer.read()).decode()

    async def reasons(self, about: str) -> list[tuple[str, str]]:
        selector = f"involvedObject.name={about}"
        events = (await self.core.list_namespaced_event(SPACE, field_selector=selector)).items
        return [(event.reason, event.message) for event in events]

    async def told(self, about: str, reason: str, part: str = "") -> str:
        async def found() -> str | None:
            told = await self.reasons(about)
            return next((message for word, message in told if word == reason and part in message), None)

        return await until(found)

    async def gone(self, name: str) -> None:
        async def found() -> bool:
            with contextlib.suppress(ApiException):
                await self.job(name)
                return False
            return True

        await until(found)


@contextlib.asynccontextmanager
async def connected(kube: Kube, token: str | None = None) -> AsyncIterator[Client]:
    """Yield a client of the administrator or of the token; "" is anonymous."""
    configuration = client.Configuration(host=kube.url)
    if token != "":
        configuration.api_key = {"BearerToken": f"Bearer {token or kube.admin_token}"}
    async with client.ApiClient(configuration) as api:
        yield Client(api)


async def until(found: Callable[[], Awaitable[Any]]) -> Any:
    """Return the first true result; TimeoutError after a generous limit."""
    async with asyncio.timeout(PATIENCE_S):
        while not (value := await found()):
            await asyncio.sleep(0.02)
        return value


def end_of(job: Any) -> tuple[str, str | None] | None:
    ends = [c for c in job.status.conditions or [] if c.type in ("Complete", "Failed")]
    return (ends[0].type, ends[0].reason) if ends else None


def terminated(pod: Any) -> Any:
    statuses = pod.status.container_statuses
    return statuses[0].state.terminated if statuses else None


def condition(pod: Any, type_: str) -> Any:
    return next((c for c in pod.status.conditions or [] if c.type == type_), None)


def said(error: ApiException) -> str:
    return json.loads(error.body)["message"]


async def refusal(call: Awaitable[Any]) -> ApiException:
    try:
        await call
    except ApiException as error:
        return error
    raise AssertionError("the call was not refused")
