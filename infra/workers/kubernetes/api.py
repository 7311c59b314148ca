"""Calls about a job, except those of the view."""

import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import anyio
from kubernetes_asyncio.client import ApiClient, BatchV1Api, CoreV1Api
from kubernetes_asyncio.client.exceptions import ApiException
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_random_exponential

from infra.workers.kubernetes.errors import Unclear, transient

Object = dict[str, Any]

OF_RUNS = "prefect.io/flow-run-id"  # prefect-kubernetes' label of everything that belongs to a run
CONNECT_S, ANSWER_S = 10, 60
LONGEST_WAIT_S = 10
LOG_LINES = 2000  # of an ended container; the flow itself logs to Prefect
LOG_BYTES = 1_000_000


async def raw(call: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> bytes:
    response = await call(*args, _preload_content=False, _request_timeout=(CONNECT_S, ANSWER_S), **kwargs)
    async with response:
        body: bytes = await response.read()
    if response.status >= HTTPStatus.BAD_REQUEST:
        error = ApiException(status=response.status, reason=response.reason)
        error.body = body
        raise error
    return body


async def answer(call: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Object:
    """Return the answer as an object: the client's own models take ten times the memory.

    `ApiException` if the API refuses, `Unclear` if the answer is not an object.
    """
    body = await raw(call, *args, **kwargs)
    try:
        content: Object = json.loads(body)
    except ValueError:
        raise Unclear(f"it answered {body[:100]!r}") from None
    return content


class NamespaceApi:
    """One namespace of a cluster."""

    def __init__(self, client: ApiClient, namespace: str, patience_s: float) -> None:
        self._batch, self._core = BatchV1Api(client), CoreV1Api(client)
        self.namespace, self._patience_s = namespace, patience_s

    async def create(self, job: Object) -> Object:
        """Create a job, or return one from a lost worker or answer.

        `ApiException` if the API refuses, or another run has a job of this name.
        """
        try:
            return await self._retry(self._batch.create_namespaced_job, self.namespace, job)
        except ApiException as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            existing = await self.find(job["metadata"]["name"])
            if existing is None or _run_of(existing) != _run_of(job):
                raise
            return existing

    async def find(self, name: str) -> Object | None:
        try:
            return await self._retry(self._batch.read_namespaced_job, name, self.namespace)
        except ApiException as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    async def delete(self, name: str, grace_s: int) -> bool:
        """Delete a job with its pods; return True if it existed."""
        try:
            await answer(
                self._batch.delete_namespaced_job,
                name,
                self.namespace,
                grace_period_seconds=grace_s,
                propagation_policy="Foreground",
            )
        except ApiException as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return False
            raise
        return True

    async def events(self, name: str) -> list[Object]:
        """Return a job's or pod's events, oldest first; a cluster keeps them for an hour."""
        selector = f"involvedObject.name={name}"
        events = await answer(self._core.list_namespaced_event, self.namespace, field_selector=selector)
        return sorted(events["items"], key=_seen_at)

    async def log(self, pod: str, container: str) -> bytes:
        return await raw(
            self._core.read_namespaced_pod_log,
            pod,
            self.namespace,
            container=container,
            tail_lines=LOG_LINES,
            limit_bytes=LOG_BYTES,
        )

    async def _retry(self, call: Callable[..., Awaitable[Any]], *args: Any) -> Object:
        again = AsyncRetrying(
            retry=retry_if_exception(transient),
            stop=stop_after_delay(self._patience_s),
            wait=wait_random_exponential(max=LONGEST_WAIT_S),
            sleep=anyio.sleep,
            reraise=True,
        )
        return await again(answer, call, *args)


def _run_of(job: Object) -> str | None:
    run: str | None = job["metadata"].get("labels", {}).get(OF_RUNS)
    return run


def _seen_at(event: Object) -> str:
    series = (event.get("series") or {}).get("lastObservedTime")
    return str(series or event.get("lastTimestamp") or event.get("eventTime") or "")
