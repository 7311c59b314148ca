"""The kubelets of all nodes: run placed pods to their containers' end, and report it."""

import asyncio
import fnmatch
import signal
from typing import TYPE_CHECKING

from tests.emulators.kube.api_server.objects import Key, Obj, finished, key_of, leaving
from tests.emulators.kube.api_server.store import Change
from tests.emulators.kube.garbage import disrupt
from tests.emulators.kube.nodes import pod_status
from tests.emulators.kube.nodes.containers_of import Missing, wanted_of
from tests.emulators.kube.nodes.ends import Verdict
from tests.emulators.kube.nodes.runner import CannotStart, Ended, Log, Running, Wanted

if TYPE_CHECKING:
    from tests.emulators.kube.cluster import Cluster

COMPONENT = "kubelet"
NO_IMAGE = (
    'rpc error: code = NotFound desc = failed to pull and unpack image "{full}": failed to resolve reference '
    '"{full}": {full}: not found'
)
PRESENT = 'Container image "{image}" already present on machine and can be accessed by the pod'


class Kubelet:
    def __init__(self, cluster: "Cluster") -> None:
        self.cluster = cluster
        self.workers: dict[str, Worker] = {}
        self.lives: set[asyncio.Task[None]] = set()
        self.seen: set[str] = set()  # pods that have had their worker, also one that has ended
        self.logs: dict[str, list[Log]] = {}  # pod's uid → a log for each start of its container

    def on_change(self, change: Change) -> None:
        if change.plural != "pods":
            return
        pod, uid = change.object, change.object["metadata"]["uid"]
        worker = self.workers.get(uid)
        if change.type == "DELETED":
            self.logs.pop(uid, None)
            self.seen.discard(uid)
            if worker:
                worker.end(Verdict(grace_s=0, forgotten=True))
        elif worker:
            if leaving(pod):
                worker.end(Verdict(grace_s=pod["metadata"]["deletionGracePeriodSeconds"], deleted=True))
        elif pod["spec"].get("nodeName") and not finished(pod) and uid not in self.seen:
            self.seen.add(uid)
            self.workers[uid] = worker = Worker(self.cluster, key_of(pod), uid)
            life = self.cluster.spawn(worker.live())
            self.lives.add(life)
            life.add_done_callback(self.lives.discard)
            life.add_done_callback(lambda _: self.workers.pop(uid, None))


class Worker:
    def __init__(self, cluster: "Cluster", key: Key, uid: str) -> None:
        self.cluster, self.store, self.pace = cluster, cluster.store, cluster.pace
        self.key, self.uid = key, uid
        self.logs: list[Log] = []
        self.verdict: Verdict | None = None
        self.asked = asyncio.Event()
        self.restarts = 0

    def end(self, verdict: Verdict) -> None:
        """Request the pod's end; the first verdict counts, except that a forgotten pod never waits."""
        if self.verdict is None or (verdict.forgotten and not self.verdict.forgotten):
            self.verdict = verdict
        self.asked.set()

    @property
    def pod(self) -> Obj | None:
        pod = self.store.find("pods", self.key)
        return pod if pod and pod["metadata"]["uid"] == self.uid else None

    @property
    def container(self) -> Obj:
        return self.pod["spec"]["containers"][0] if self.pod else {"name": "", "image": ""}

    def tell(self, reason: str, message: str, warning: bool = False) -> None:
        if (pod := self.pod) and not (self.verdict and self.verdict.silent):
            container = self.container["name"]
            self.cluster.event(pod, reason, message, COMPONENT, warning, container)

    def change(self, change: pod_status.Change) -> None:
        """Change the pod, unless its node is silent."""
        if self.pod and not (self.verdict and self.verdict.silent):
            self.store.update("pods", self.key, change)

    async def live(self) -> None:
        try:
            self.change(lambda pod: pod_status.creating(pod, self.container))
            if await self.pull():
                wanted = await self.configured()
                while wanted and await self.run(wanted):
                    pass
        finally:
            self.leave()

    def leave(self) -> None:
        """Write the final status of an ended pod; remove it if deleted."""
        if self.verdict and self.pod and not finished(self.pod):
            self.change(lambda pod: pod_status.never_ran(pod, self.verdict or Verdict()))
        if self.pod and leaving(self.pod):
            self.change(lambda pod: pod["metadata"].update(deletionGracePeriodSeconds=0))

    async def pause(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self.asked.wait(), seconds)
        except TimeoutError:
            return True
        return False

    def waiting(self, reason: str, message: str = "") -> None:
        self.change(lambda pod: pod_status.waiting(pod, self.container, reason, message))

    async def pull(self) -> bool:
        """Pull the image; return False if the pod is ended first."""
        image, delay_s = self.container["image"], self.pace.pull_backoff_s
        while not self.asked.is_set():
            failure = self.pull_failure(image)
            if failure is None and await self.cluster.runner.has(self.local(image)):
                self.tell("Pulled", PRESENT.format(image=image))
                return True
            self.tell("Pulling", f'Pulling image "{image}"')
            if not await self.pause(self.pace.pull_s):
                return False
            why = failure or NO_IMAGE.format(full=full_name(image))
            self.tell("Failed", f'Failed to pull image "{image}": {why}', warning=True)
            self.tell("Failed", "Error: ErrImagePull", warning=True)
            self.waiting("ErrImagePull", why)
            if not await self.pause(self.pace.pull_s):
                return False
            self.tell("BackOff", f'Back-off pulling image "{image}"')
            self.tell("Failed", "Error: ImagePullBackOff", warning=True)
            self.waiting("ImagePullBackOff", f'Back-off pulling image "{image}": ErrImagePull: {why}')
            if not await self.pause(delay_s):
                return False
            delay_s = min(2 * delay_s, self.pace.longest_pull_backoff_s)
        return False

    def local(self, image: str) -> str:
        found = (to for glob, to in self.cluster.images.items() if fnmatch.fnmatchcase(image, glob))
        return next(found, image)

    def pull_failure(self, image: str) -> str | None:
        failures = self.cluster.pull_failures.items()
        return next((why for glob, why in failures if fnmatch.fnmatchcase(image, glob)), None)

    async def configured(self) -> Wanted | None:
        while (pod := self.pod) and not self.asked.is_set():
            try:
                return wanted_of(self.store, pod, self.local(self.container["image"]))
            except Missing as missing:
                self.tell("Failed", f"Error: {missing}", warning=True)
                self.waiting("CreateContainerConfigError", str(missing))
                await self.pause(self.pace.create_retry_s)
        return None

    async def run(self, wanted: Wanted) -> bool:
        """Run the container once; return True if it restarts."""
        log = Log()
        self.logs.append(log)
        try:
            running = await self.cluster.runner.start(wanted, log)
        except CannotStart as error:
            why = str(error)
            log.close()
            self.tell("Failed", f"Error: {why}", warning=True)
            self.change(lambda pod: pod_status.not_started(pod, self.container, why, self.restarts))
            return False
        if self.pod:
            self.cluster.kubelet.logs[self.uid] = self.logs
        self.tell("Created", "Container created")
        self.tell("Started", "Container started")
        self.change(lambda pod: pod_status.running(pod, self.container, self.restarts))
        ended = await self.until_the_end(running)
        verdict = self.verdict
        again = verdict is None and self.restart_wanted(ended)
        if not again:
            self.change(lambda pod: pod_status.ended(pod, self.container, ended, verdict))
            return False
        self.restarts += 1
        self.tell("BackOff", self.backoff_text(), warning=True)
        self.change(lambda pod: pod_status.backing_off(pod, self.container, ended, self.backoff_text()))
        return await self.pause(self.pace.restart_backoff_s * 2 ** (self.restarts - 1))

    def restart_wanted(self, ended: Ended) -> bool:
        policy = self.pod["spec"].get("restartPolicy") if self.pod else "Never"
        return policy == "Always" or (policy == "OnFailure" and bool(ended.exit_code))

    def backoff_text(self) -> str:
        namespace, name = self.key
        pod = f"{name}_{namespace}({self.uid})"
        return f"Back-off restarting failed container {self.container['name']} in pod {pod}"

    async def until_the_end(self, running: Running) -> Ended:
        """Wait for the container; end it on request by SIGTERM, a grace period, SIGKILL."""
        ended = asyncio.ensure_future(running.wait())
        asked = asyncio.ensure_future(self.asked.wait())
        await asyncio.wait({ended, asked}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if self.verdict and not ended.done():
            await self.terminate(running, ended, self.verdict)
        return await ended

    async def terminate(self, running: Running, ended: asyncio.Future[Ended], verdict: Verdict) -> None:
        if verdict.deleted or verdict.killing:
            self.tell("Killing", f"Stopping container {self.container['name']}")
        if verdict.disruption and self.pod:
            disrupt(self.store, self.key, *verdict.disruption)
        if verdict.event:
            self.tell(*verdict.event, warning=True)
        if verdict.grace_s:
            await running.signal(signal.SIGTERM)
            patience = asyncio.get_running_loop().time() + verdict.grace_s
            while not ended.done() and asyncio.get_running_loop().time() < patience:
                if self.verdict is not verdict:
                    break
                self.asked.clear()
                asked = asyncio.ensure_future(self.asked.wait())
                left_s = patience - asyncio.get_running_loop().time()
                await asyncio.wait({ended, asked}, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
                asked.cancel()
            self.asked.set()
        if not ended.done():
            await running.signal(signal.SIGKILL)


def full_name(image: str) -> str:
    first = image.partition("/")[0]
    named = "/" in image and ("." in first or ":" in first or first == "localhost")
    return image if named else f"docker.io/{image}" if "/" in image else f"docker.io/library/{image}"
