"""A Kubernetes API on a local port: a thread of this process with its own cluster."""

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
    url: str
    control: Control
    admin_token: str = ADMIN_TOKEN

    def token(self, namespace: str, account: str) -> str:
        tokens = self.control.cluster.tokens
        return self.control.call(lambda: tokens.issue(service_account(namespace, account)))

    def apply(self, manifests: Path | str | Iterable[Obj]) -> None:
        """Apply a file's documents, a text's, or objects, as the administrator."""
        if isinstance(manifests, (Path, str)):
            text = manifests.read_text() if isinstance(manifests, Path) else manifests
            manifests = [document for document in yaml.safe_load_all(text) if document]
        for document in manifests:
            self.control.call(lambda document=document: self.control.cluster.apply(document))

    def kubeconfig(self, path: Path, token: str | None = None, namespace: str = "bench") -> Path:
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
        """Make a login of a service account with expiring tokens, and its kubeconfig."""
        login = Login(folder, namespace, account)
        login.tokens_live(lives_s)
        self.control.cluster.tokens.issuer = login.issued
        config = yaml.safe_load(self.kubeconfig(login.kubeconfig, namespace=namespace).read_text())
        config["users"][0]["user"] = {"exec": login.plugin()}
        login.kubeconfig.write_text(yaml.safe_dump(config))
        return login


class Server:
    def __init__(self, control: Control) -> None:
        self.api = Api(control)
        control.listen, control.break_streams = self.listen, self.api.break_streams
        self.runner: web.AppRunner | None = None
        self.site: web.TCPSite | None = None
        self.port = 0

    async def open(self) -> None:
        self.runner = web.AppRunner(self.api.application(), shutdown_timeout=0.1, access_log=None)
        await self.runner.setup()
        await self.listen(True)

    async def listen(self, wanted: bool) -> None:
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
        self.api.break_streams()
        if self.runner:
            await self.runner.cleanup()


class Thread:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.run, daemon=True, name="kube")
        self.thread.start()

    def run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


async def begin(cluster: Cluster, server: Server, namespaces: tuple[str, ...], nodes: int) -> None:
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
    """Yield a cluster with `nodes` machines without GPUs, and the namespaces.

    runner: `Processes` by default, `Containers` for real ones. pace: for tests by default. gke: pods that
    request GPUs get their toleration. Exceptions inside the emulator are raised at the end.
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
