"""A Kubernetes API on a port of this machine: a thread of this process, a cluster of its own."""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import yaml
from aiohttp import web

from tests.emulators.fixtures import environment
from tests.emulators.kube.api_server.api import Api
from tests.emulators.kube.api_server.objects import Obj
from tests.emulators.kube.api_server.rbac import ADMIN_TOKEN, service_account
from tests.emulators.kube.cluster import Cluster
from tests.emulators.kube.control import Control
from tests.emulators.kube.login import Login
from tests.emulators.kube.nodes.nodes import node
from tests.emulators.kube.nodes.runner import Processes, Runner
from tests.emulators.kube.pace import Pace, quick

T = TypeVar("T")
NAMESPACES = ("default", "kube-system")
CLUSTER = "stand-in"


class Kube(NamedTuple):
    """Where the API is, what steers it, and how to get in."""

    url: str
    control: Control
    admin_token: str = ADMIN_TOKEN

    def token(self, namespace: str, account: str) -> str:
        """A new token of a service account."""
        tokens = self.control.cluster.tokens
        return self.control.call(lambda: tokens.issue(service_account(namespace, account)))

    def apply(self, manifests: Path | str | Iterable[Obj]) -> None:
        """What `kubectl apply` does, as the administrator: a file's documents, a text's, or objects."""
        if isinstance(manifests, (Path, str)):
            text = manifests.read_text() if isinstance(manifests, Path) else manifests
            manifests = [document for document in yaml.safe_load_all(text) if document]
        for document in manifests:
            self.control.call(lambda document=document: self.control.cluster.apply(document))

    def kubeconfig(self, path: Path, token: str | None = None, namespace: str = "bench") -> Path:
        """Writes a kubeconfig; without a token it is the administrator's."""
        user, context = {"token": token or self.admin_token}, {"cluster": CLUSTER, "user": CLUSTER}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": CLUSTER, "cluster": {"server": self.url}}],
            "users": [{"name": CLUSTER, "user": user}],
            "contexts": [{"name": CLUSTER, "context": context | {"namespace": namespace}}],
            "current-context": CLUSTER,
        }
        path.write_text(yaml.safe_dump(document))
        return path

    def login(self, folder: Path, account: str, namespace: str = "bench", lives_s: float = 3600) -> Login:
        """A login of a service account whose tokens expire, and a kubeconfig with its plugin."""
        login = Login(folder, namespace, account)
        login.tokens_live(lives_s)
        self.control.cluster.tokens.issuer = login.issued
        config = yaml.safe_load(self.kubeconfig(login.kubeconfig, namespace=namespace).read_text())
        config["users"][0]["user"] = {"exec": login.plugin()}
        login.kubeconfig.write_text(yaml.safe_dump(config))
        return login


class Server:
    """The port, which can be closed for a while and opened again."""

    def __init__(self, control: Control) -> None:
        self.api = Api(control)
        control.listen, control.break_streams = self.listen, self.api.break_streams
        self.runner: web.AppRunner | None = None
        self.site: web.TCPSite | None = None
        self.port = 0

    async def open(self) -> None:
        """Listens on a free port of loopback."""
        self.runner = web.AppRunner(self.api.application(), shutdown_timeout=0.1, access_log=None)
        await self.runner.setup()
        await self.listen(True)

    async def listen(self, wanted: bool) -> None:
        """Opens the port, or closes it and every connection."""
        if not self.runner:
            return
        if wanted:
            self.site = web.TCPSite(self.runner, "127.0.0.1", self.port, reuse_address=True)
            await self.site.start()
            self.port = self.runner.addresses[0][1]
            return
        if self.site:
            await self.site.stop()
        for handler in list(self.runner.server.connections if self.runner.server else []):
            if handler.transport:
                handler.transport.abort()

    async def close(self) -> None:
        """Ends every stream and closes the port."""
        self.api.break_streams()
        if self.runner:
            await self.runner.cleanup()


class Thread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.run, daemon=True, name="kube")
        self.thread.start()

    def run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """What comes of some work, done there."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


async def begin(cluster: Cluster, server: Server, namespaces: tuple[str, ...], nodes: int) -> None:
    """Opens the port of a cluster with namespaces and machines."""
    for name in (*NAMESPACES, *namespaces):
        cluster.create("namespaces", "", {"metadata": {"name": name}})
    for number in range(1, nodes + 1):
        cluster.store.add("nodes", node(f"node-{number}"))
    await server.open()


@contextlib.contextmanager
def kube(
    runner: Runner | None = None,
    pace: Pace | None = None,
    *,
    gke: bool = True,
    namespaces: tuple[str, ...] = ("bench",),
    nodes: int = 1,
) -> Iterator[Kube]:
    """A cluster that lives as long as the context: `nodes` machines without GPUs, and the namespaces.

    runner: `Processes` by default, `Containers` for real ones. pace: for tests by default. gke: pods that ask
    for GPUs are given the toleration that they need. What failed in the stand-in itself is raised at the end.
    """
    thread = Thread()
    cluster = Cluster(pace or quick(), runner or Processes(), gke)
    control = Control(cluster, thread.loop)
    server = Server(control)
    try:
        thread.do(begin(cluster, server, namespaces, nodes))
        # Containers have this machine's network here, so they reach a Prefect server on loopback.
        with environment(GRIDBENCH_LOOPBACK_API="true"):
            yield Kube(f"http://127.0.0.1:{server.port}", control)
    finally:
        thread.do(server.close())
        thread.do(cluster.close())
        thread.stop()
    if cluster.problems:
        raise ExceptionGroup("the stand-in failed", cluster.problems)
