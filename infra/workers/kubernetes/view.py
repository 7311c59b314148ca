"""All jobs and pods of a namespace, from one watch of each."""

from collections.abc import Callable

import anyio
from kubernetes_asyncio import watch
from kubernetes_asyncio.client import ApiClient, BatchV1Api, CoreV1Api
from kubernetes_asyncio.client.exceptions import ApiException

from infra.workers.base.job_configuration import JobRefused
from infra.workers.base.run_log import RepeatLimit
from infra.workers.kubernetes.api import CONNECT_S, OF_RUNS, Object, answer
from infra.workers.kubernetes.errors import Unclear, sentence, transient
from infra.workers.kubernetes.settings import KubernetesSettings

JOB_OF_POD = "job-name"  # https://kubernetes.io/docs/reference/labels-annotations-taints/
PAGE = 500
GONE = 410  # the version to watch from is too old: list again
LONGEST_WAIT_S = 30
LOOK = "list and watch jobs and pods"


class View:
    """The jobs and pods of a namespace, kept up to date.

    `pods` by job, then name. A deleted pod stays as long as its job, because it has the reason of its end. A
    followed job's pods stay after its deletion, because they end after it.
    """

    def __init__(
        self, client: ApiClient, namespace: str, settings: KubernetesSettings, warn: Callable[[str], None]
    ) -> None:
        self.jobs: dict[str, Object] = {}
        self.pods: dict[str, dict[str, Object]] = {}
        self._namespace, self._settings, self._warn = namespace, settings, warn
        self._lists = {
            "jobs": BatchV1Api(client).list_namespaced_job,
            "pods": CoreV1Api(client).list_namespaced_pod,
        }
        self._listed: set[str] = set()
        self._trouble: dict[str, BaseException] = {}
        self._repeats = RepeatLimit()
        self._changed = anyio.Event()
        self._news: dict[str, anyio.Event] = {}
        self._versions: dict[str, int] = {}
        self._followed: set[str] = set()

    async def run(self) -> None:
        async with anyio.create_task_group() as group:
            for kind in self._lists:
                group.start_soon(self._keep, kind)

    async def ready(self, patience_s: float) -> None:
        """Raise `JobRefused` if the worker lacks a right, or the API does not answer within `patience_s`."""
        deadline = anyio.current_time() + patience_s
        while len(self._listed) < len(self._lists):
            trouble = self.trouble
            if trouble and (not transient(trouble) or anyio.current_time() > deadline):
                raise JobRefused(sentence(trouble, LOOK))
            changed = self._changed
            with anyio.move_on_after(max(0.0, deadline - anyio.current_time()) + 1):
                await changed.wait()

    @property
    def trouble(self) -> BaseException | None:
        """Return why the API does not show the jobs and pods; None while it does."""
        return next(iter(self._trouble.values()), None)

    def take(self, job: Object) -> None:
        self.jobs.setdefault(job["metadata"]["name"], _slim(job))

    def version(self, name: str) -> int:
        """Return the number of a job's changes; read it before the job."""
        return self._versions.get(name, 0)

    async def news(self, name: str, version: int, within_s: float) -> None:
        """Wait until a job has changed since a version, at most `within_s`."""
        if self.version(name) == version:
            with anyio.move_on_after(within_s):
                await self._news.setdefault(name, anyio.Event()).wait()

    def wake(self, name: str) -> None:
        self._versions[name] = self.version(name) + 1
        if event := self._news.pop(name, None):
            event.set()

    def follow(self, name: str) -> None:
        """Keep a job's pods until `forget`, also after its deletion."""
        self._followed.add(name)

    def forget(self, name: str) -> None:
        self._versions.pop(name, None)
        self._news.pop(name, None)
        self._followed.discard(name)
        if name not in self.jobs:
            self.pods.pop(name, None)

    async def _keep(self, kind: str) -> None:
        version, failures = "", 0
        while True:
            opened_at = anyio.current_time()
            try:
                version = version or await self._list(kind)
                version = await self._watch(kind, version)
            except TimeoutError:
                continue  # silent for too long: reopened at the same version
            except Exception as error:
                version = ""
                if isinstance(error, ApiException) and error.status == GONE:
                    continue
                if not isinstance(error, ApiException) and not transient(error):
                    raise
                lasted = anyio.current_time() - opened_at > LONGEST_WAIT_S
                failures = await self._pause(kind, error, 0 if lasted else failures)

    async def _pause(self, kind: str, error: Exception, failures: int) -> int:
        self._trouble[kind] = error
        self._announce()
        text = f"{sentence(error, f'list and watch {kind}')} The worker will try again."
        if self._repeats.is_due(text) or not failures:
            self._warn(text)
        await anyio.sleep(min(self._settings.poll_s * 2**failures, LONGEST_WAIT_S))
        return failures + 1

    def _announce(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def _list(self, kind: str) -> str:
        """List everything; return the version to watch from."""
        things: dict[str, Object] = {}
        more: dict[str, str] = {}
        while True:
            query = {"label_selector": OF_RUNS, "limit": PAGE, **more}
            page = await answer(self._lists[kind], self._namespace, **query)
            things |= {thing["metadata"]["name"]: thing for thing in page["items"]}
            if not page["metadata"].get("continue"):
                break
            more = {"_continue": page["metadata"]["continue"]}
        self._replace(kind, things)
        self._trouble.pop(kind, None)
        self._listed.add(kind)
        self._announce()
        return str(page["metadata"]["resourceVersion"])

    def _replace(self, kind: str, things: dict[str, Object]) -> None:
        pods = {name: pod for pods in self.pods.values() for name, pod in pods.items()}
        before = self.jobs if kind == "jobs" else pods
        for name in before.keys() - things.keys():
            self._change(kind, "DELETED", before[name])
        for thing in things.values():
            self._change(kind, "MODIFIED", thing)

    async def _watch(self, kind: str, version: str) -> str:
        """Apply changes until the server ends the watch; return the last version."""
        stream = watch.Watch(return_type="object")
        stream.resource_version = version  # type: ignore[assignment]
        changes = stream.stream(
            self._lists[kind],
            self._namespace,
            label_selector=OF_RUNS,
            resource_version=version,
            allow_watch_bookmarks=True,
            timeout_seconds=self._settings.watch_s,
            _request_timeout=(CONNECT_S, self._settings.silent_s),
        )
        async with changes:
            async for change in changes:
                if not isinstance(change, dict):
                    raise Unclear(f"it sent {str(change)[:100]!r} to a watch")
                if change["type"] != "BOOKMARK":
                    self._change(kind, change["type"], change["raw_object"])
        return str(stream.resource_version)

    def _change(self, kind: str, change: str, thing: Object) -> None:
        name = thing["metadata"]["name"]
        if kind == "jobs":
            job = name
            if change == "DELETED":
                self.jobs.pop(name, None)
                if name not in self._followed:
                    self.pods.pop(name, None)
            else:
                self.jobs[name] = _slim(thing)
        else:
            job = thing["metadata"].get("labels", {}).get(JOB_OF_POD, "")
            if change == "DELETED" and job not in self.jobs and job not in self._followed:
                self.pods.get(job, {}).pop(name, None)
            else:
                self.pods.setdefault(job, {})[name] = _slim(thing) | {"gone": change == "DELETED"}
        if job in self._versions or job in self._news or change != "DELETED":
            self.wake(job)


def _slim(thing: Object) -> Object:
    kept = ("name", "namespace", "uid", "labels", "creationTimestamp", "deletionTimestamp")
    metadata = {key: thing["metadata"][key] for key in kept if key in thing["metadata"]}
    node = thing.get("spec", {}).get("nodeName")
    return {
        "metadata": metadata,
        "spec": {"nodeName": node} if node else {},
        "status": thing.get("status", {}),
    }
