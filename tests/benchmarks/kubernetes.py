"""The kubernetes-jobs worker with 1 job and with 500: requests, memory, and time to notice an end.

The emulated cluster runs in its own process over HTTP; its containers are processes that wait for a switch.
Everything of the worker below Prefect is driven: view, calls and followers.
"""

import asyncio
import errno
import gc
import logging
import multiprocessing
import os
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import anyio
import psutil
from prefect.client.schemas.objects import FlowRun
from prefect_kubernetes.credentials import KubernetesClusterConfig

from infra.workers.kubernetes.api import NamespaceApi
from infra.workers.kubernetes.configuration import KubernetesJobsConfiguration, default_template, job_name
from infra.workers.kubernetes.follow import KubernetesFollow
from infra.workers.kubernetes.login import client_of
from infra.workers.kubernetes.reasons import CONTAINER, finished
from infra.workers.kubernetes.settings import KubernetesSettings
from infra.workers.kubernetes.view import View
from tests.emulators.kube.api_server.store import Change
from tests.emulators.kube.control import Request
from tests.emulators.kube.nodes.runner import Processes
from tests.emulators.kube.pace import Pace as ClusterPace
from tests.emulators.kube.server import kube

JOBS = 500
ALONE = 20  # jobs one after another: as many ends to take a median of
NAMESPACE = "bench"
LARGE = {"cpu": "1000", "memory": "8Ti", "pods": "1000"}  # a node that has room for all of them
AT_ONCE = 20  # submissions under way
APART_S = 0.1  # from one end to the next: together, they would measure the stand-in
LOOK_S = 0.05
UP_S = 600.0  # until all containers run
MINUTE_S = 60.0
SHARED = ("list", "watch")  # requests that are for all jobs together
TEMPLATE = default_template()


@dataclass(frozen=True)
class Driven:
    """Cost of jobs followed at the same time.

    Attributes:
        memory_bytes: the worker's, while all ran.
        requests: the jobs' own, by kind.
        noticed_s: from a job's end in the cluster until the worker knew it, one a job.
    """

    jobs: int
    memory_bytes: int
    requests: Counter[str]
    noticed_s: list[float]

    @property
    def job_requests(self) -> float:
        return self.requests.total() / len(self.noticed_s)

    @property
    def percentile_s(self) -> float:
        return statistics.quantiles(self.noticed_s, n=20, method="inclusive")[-1]


def kind_of(request: Request) -> str:
    last = request.path.rpartition("/")[2]
    if request.method != "GET":
        return {"POST": "create", "DELETE": "delete"}.get(request.method, request.method)
    if last in ("log", "events"):
        return last
    if last not in ("jobs", "pods"):
        return "find"
    return "watch" if "watch" in request.query else "list"


def stand_in(kubeconfig: Path, pipe: Connection) -> None:
    """Run the cluster; send the requests so far and each job's end time on request."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    ends: dict[str, float] = {}

    def note(change: Change) -> None:
        if change.plural == "jobs" and finished(change.object):
            ends.setdefault(change.object["metadata"]["name"], time.monotonic())

    with kube(Processes(), ClusterPace(), namespaces=(NAMESPACE,), nodes=0) as cluster:
        control = cluster.control
        control.call(lambda: control.cluster.store.listeners.append(note))
        control.add_node("large", **LARGE)
        cluster.kubeconfig(kubeconfig)
        pipe.send(None)
        while pipe.recv():
            pipe.send((Counter(map(kind_of, list(control.requests))), control.call(ends.copy)))


class Lanes:
    def __init__(
        self, api: NamespaceApi, view: View, pace: KubernetesSettings, folder: Path, pipe: Connection
    ) -> None:
        self.api, self.view, self.pace, self.folder, self._pipe = api, view, pace, folder, pipe
        self._log = logging.LoggerAdapter(logging.getLogger("kubernetes-benchmark"), {})
        self._few = anyio.CapacityLimiter(AT_ONCE)

    def told(self) -> tuple[Counter[str], dict[str, float]]:
        self._pipe.send("tell")
        found: tuple[Counter[str], dict[str, float]] = self._pipe.recv()
        return found

    async def drive(self, jobs: int) -> Driven:
        follows: list[KubernetesFollow] = []
        noticed: dict[str, float] = {}
        before, _ = self.told()
        async with anyio.create_task_group() as group:
            for _ in range(jobs):
                group.start_soon(self._one, follows, noticed)
            with anyio.fail_after(UP_S):
                while len(follows) < jobs or not all(follow.stages_s for follow in follows):
                    await asyncio.sleep(LOOK_S)
            gc.collect()
            memory_bytes = psutil.Process().memory_info().rss
            for follow in follows:
                await self._end(follow.name)
                await asyncio.sleep(APART_S)
        requests, ends = self.told()
        own = Counter({kind: n for kind, n in (requests - before).items() if kind not in SHARED})
        return Driven(jobs, memory_bytes, own, [at - ends[name] for name, at in noticed.items()])

    async def _one(self, follows: list[KubernetesFollow], noticed: dict[str, float]) -> None:
        run = FlowRun(id=uuid.uuid4(), flow_id=uuid.UUID(int=1), name="a-lane")
        name = job_name(run.id, 1)
        switch = self.folder / name
        os.mkfifo(switch)
        async with self._few:
            asked = await self._asked(run, f"sh -c {shlex.quote(f'read word <{switch}')}")
            self.view.take(await self.api.create(asked.job(name)))
        job_id = f"{NAMESPACE}:{name}"
        follow = KubernetesFollow(
            run, job_id, name, asked, self.api, self.view, self.pace, self._log, note=_to_nobody
        )
        follows.append(follow)
        ending = await follow.to_the_end()
        noticed[name] = time.monotonic()
        assert ending and ending.name == "Exited", ending
        if follow.pod:
            await self.api.log(follow.pod["metadata"]["name"], CONTAINER)

    async def _asked(self, run: FlowRun, command: str) -> KubernetesJobsConfiguration:
        values = {"image": "bench", "namespace": NAMESPACE, "vcpus": 0.1, "command": command}
        asked = await KubernetesJobsConfiguration.from_template_and_values(TEMPLATE, values, client=object())
        asked.prepare_for_flow_run(run)
        return asked

    async def _end(self, name: str) -> None:
        while True:
            try:
                switch = os.open(self.folder / name, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno != errno.ENXIO:  # it has no reader yet
                    raise
                await asyncio.sleep(LOOK_S)
            else:
                os.write(switch, b"end\n")
                os.close(switch)
                return


async def _to_nobody(stages_s: dict[str, float]) -> None: ...


@asynccontextmanager
async def lanes(kubeconfig: Path, pipe: Connection) -> AsyncIterator[Lanes]:
    pace = KubernetesSettings()
    async with (
        client_of(KubernetesClusterConfig.from_file(kubeconfig)) as client,
        anyio.create_task_group() as group,
    ):
        view = View(client, NAMESPACE, pace, logging.getLogger("kubernetes-benchmark").warning)
        group.start_soon(view.run)
        await view.ready(pace.patience_s)
        api = NamespaceApi(client, NAMESPACE, pace.patience_s)
        yield Lanes(api, view, pace, kubeconfig.parent, pipe)
        group.cancel_scope.cancel()


def main() -> None:
    subprocess.run([sys.executable, "-m", "tests.benchmarks.kubernetes"], check=True)


async def measure(kubeconfig: Path, pipe: Connection) -> None:
    """Print requests, memory and time to notice as ratios to those of one job."""
    began = time.monotonic()
    async with lanes(kubeconfig, pipe) as worker:
        await worker.drive(1)  # imports and connections are there before anything is counted
        alone = [await worker.drive(1) for _ in range(ALONE)]
        many = await worker.drive(JOBS)
        requests, _ = worker.told()
        poll_s = worker.pace.poll_s
    one = Driven(
        1,
        max(driven.memory_bytes for driven in alone),
        sum((driven.requests for driven in alone), Counter()),
        [s for driven in alone for s in driven.noticed_s],
    )
    shared = sum(requests[kind] for kind in SHARED)
    print("\n".join(sentences(one, many, shared, time.monotonic() - began, poll_s)))


def sentences(one: Driven, many: Driven, shared: int, spent_s: float, poll_s: float) -> list[str]:
    """Return the cost of one job, and of all as ratios to it and to single looks."""
    mib, more_kib = many.memory_bytes / 2**20, (many.memory_bytes - one.memory_bytes) / 2**10
    kinds = ", ".join(
        f"{kind} {many.requests[kind] / many.jobs:.2f}"
        for kind in sorted({"create", "log", "events", *many.requests})
    )
    a_minute, polls = shared * MINUTE_S / spent_s, many.jobs * MINUTE_S / poll_s
    one_s, many_s = statistics.median(one.noticed_s), statistics.median(many.noticed_s)
    jobs = f"kubernetes-jobs, {many.jobs} jobs"
    return [
        f"{jobs}: {many.job_requests:.2f} requests a job ({kinds}), "
        f"{many.job_requests / one.job_requests:.2f} times those of one job",
        f"{jobs}: {a_minute:.1f} list and watch calls a minute for all together ({shared} in {spent_s:.0f} s), "
        f"{a_minute / polls:.4f} times the {polls:.0f} of a look at each by itself every {poll_s:g} s",
        f"{jobs}: worker memory {many.memory_bytes / one.memory_bytes:.3f} times that with one job "
        f"({mib:.0f} MiB, {more_kib / (many.jobs - one.jobs):.0f} KiB a job more)",
        f"{jobs}: an end is noticed after {many_s * 1000:.1f} ms at the median, {many_s / one_s:.2f} times as "
        f"late as that of one job and {many_s / (poll_s / 2):.4f} times as late as by such looks; after "
        f"{many.percentile_s * 1000:.1f} ms at the 95th percentile, {many.percentile_s / one.percentile_s:.2f} "
        "times as late as that of one job",
    ]


def run() -> None:
    logging.getLogger("prefect").setLevel(logging.WARNING)
    processes = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig, (ours, its) = Path(folder) / "kubeconfig", processes.Pipe()
        cluster = processes.Process(target=stand_in, args=(kubeconfig, its), daemon=False)
        cluster.start()
        its.close()
        try:
            ours.recv()
            asyncio.run(measure(kubeconfig, ours))
        finally:
            ours.send(None)
            cluster.join()


if __name__ == "__main__":
    run()
