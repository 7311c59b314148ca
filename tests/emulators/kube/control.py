"""Actions of a test on the cluster, and requests that the API server saw. Usable from any thread."""

import asyncio
import contextlib
import fnmatch
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from tests.emulators.kube.api_server.objects import Obj, finished, key_of, labels_of
from tests.emulators.kube.cluster import Cluster
from tests.emulators.kube.nodes import ends, nodes
from tests.emulators.kube.nodes.autoscaler import Pool

T = TypeVar("T")
Away = Literal["refused", "503"]
HANG_UP = 0  # as a fault's code: the connection is closed without an answer


@dataclass(eq=False)
class Fault:
    """A fault of the next `times` requests (None: all) that match the globs of method and path.

    code: the answer's status; 0 closes the connection. after: the request takes effect, its answer is lost.
    headers and body replace the answer's.
    """

    method: str = "*"
    path: str = "*"
    code: int = 503
    times: int | None = 1
    after: bool = False
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None
    hits: int = 0

    def strikes(self, method: str, path: str) -> bool:
        met = fnmatch.fnmatchcase(method, self.method) and fnmatch.fnmatchcase(path, self.path)
        if not met or (self.times is not None and self.hits >= self.times):
            return False
        self.hits += 1
        return True


@dataclass(eq=False)
class Request:
    """A received request; status 0 until it is answered."""

    method: str
    path: str
    query: dict[str, str]
    who: str
    body: Any = None
    status: int = 0


class Control:
    def __init__(self, cluster: Cluster, loop: asyncio.AbstractEventLoop) -> None:
        self.cluster, self.loop = cluster, loop
        self.requests: list[Request] = []
        self.warnings: list[str] = []
        self.faults: list[Fault] = []
        self.away_as: Away | None = None
        # set by the server: closes or opens the port, and ends the streams that are open
        self.listen: Callable[[bool], Any] = lambda _: None
        self.break_streams: Callable[[], None] = lambda: None

    def call(self, act: Callable[[], T]) -> T:
        async def there() -> T:
            return act()

        return asyncio.run_coroutine_threadsafe(there(), self.loop).result()

    @property
    def images(self) -> dict[str, str]:
        """The runner's image of each image reference (glob)."""
        return self.cluster.images

    @property
    def pull_failures(self) -> dict[str, str]:
        return self.cluster.pull_failures

    # The API

    def fault(self, method: str = "*", path: str = "*", code: int = 503, **options: Any) -> Fault:
        self.faults.append(Fault(method, path, code, **options))
        return self.faults[-1]

    @contextlib.contextmanager
    def away(self, how: Away = "refused") -> Iterator[None]:
        """Refuse connections, or answer 503, in the context; open streams break."""
        self.go_away(how)
        try:
            yield
        finally:
            self.come_back()

    def go_away(self, how: Away = "refused") -> None:
        self.away_as = how
        if how == "refused":
            asyncio.run_coroutine_threadsafe(self.listen(False), self.loop).result()
        self.break_watches()

    def come_back(self) -> None:
        if self.away_as == "refused":
            asyncio.run_coroutine_threadsafe(self.listen(True), self.loop).result()
        self.away_as = None

    def break_watches(self) -> None:
        self.call(self.break_streams)

    def compact(self) -> None:
        """Forget the history: earlier watches and pages get 410 Gone."""
        self.call(self.cluster.store.compact)

    def asked(self, method: str = "*", path: str = "*") -> list[Request]:
        """Return the requests that match the globs of method and path."""
        wanted = (method, path)
        return [r for r in list(self.requests) if all(map(fnmatch.fnmatchcase, (r.method, r.path), wanted))]

    # Machines

    def add_node(
        self,
        name: str,
        labels: dict[str, str] | None = None,
        taints: tuple[Obj, ...] = (),
        **allocatable: str,
    ) -> None:
        """Add a machine. `allocatable` replaces the default: {"nvidia.com/gpu": "1", "cpu": "4"}."""
        self.call(lambda: self.cluster.store.add("nodes", nodes.node(name, labels, taints, **allocatable)))

    def remove_node(self, name: str) -> None:
        self.call(lambda: self.cluster.store.remove("nodes", ("", name)))

    def autoscale(
        self,
        pool: str,
        after_s: float = 0.0,
        *,
        at_most: int = 1,
        out_of_stock: bool = False,
        **template: Any,
    ) -> None:
        """Add a pool that grows after_s seconds after a pod needed it; `template` is `add_node`'s arguments."""
        resources = template.pop("allocatable", {})
        made = Pool(pool, after_s, at_most, out_of_stock, template | resources)
        self.call(lambda: self.cluster.autoscaler.pools.append(made))

    def cordon(self, node: str) -> None:
        self.call(lambda: self.cluster.nodes.cordon(node))

    def drain(self, node: str) -> None:
        self.call(lambda: self.cluster.nodes.drain(node))

    def lose_node(self, node: str, removed: bool = True) -> None:
        """Make the machine silent; later the cloud reports it gone, if `removed`."""
        self.call(lambda: self.cluster.nodes.lose(node, removed))

    def reclaim_node(self, node: str) -> None:
        self.call(lambda: self.cluster.nodes.reclaim(node))

    # Pods

    def pods(self, job: str | None = None) -> list[Obj]:
        found = self.call(lambda: self.cluster.store.all("pods"))
        return [pod for pod in found if job is None or labels_of(pod).get("job-name") == job]

    def end(self, pod: str | Obj, verdict: ends.Verdict) -> None:
        """End a pod; its name is enough if it is unique. KeyError if it does not run."""

        def there() -> None:
            name = pod if isinstance(pod, str) else pod["metadata"]["name"]
            found = [p for p in self.cluster.store.all("pods") if key_of(p)[1] == name and not finished(p)]
            if not found or found[0]["metadata"]["uid"] not in self.cluster.kubelet.workers:
                raise KeyError(f"no pod {name} is on a node")
            self.cluster.kubelet.workers[found[0]["metadata"]["uid"]].end(verdict)

        self.call(there)

    def kill_pod(self, pod: str | Obj, reason: str = "", message: str = "") -> None:
        """SIGKILL its container: exit code 137; a reason goes into the pod's status."""
        self.end(pod, ends.Verdict(reason=reason, message=message))

    def oom(self, pod: str | Obj) -> None:
        self.end(pod, ends.OUT_OF_MEMORY)

    def evict(self, pod: str | Obj, message: str = ends.LOW_ON_MEMORY) -> None:
        self.end(pod, ends.evicted(message.replace("{container}", "main")))
