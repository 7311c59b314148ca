"""A client with fresh credentials.

GKE's tokens are valid for an hour and those of EKS for 15 minutes, while a worker runs for days; the client
of kubernetes_asyncio runs a kubeconfig's exec plugin only once.
"""

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Self

from kubernetes_asyncio import config
from kubernetes_asyncio.client import ApiClient, Configuration
from kubernetes_asyncio.client.exceptions import ApiException
from kubernetes_asyncio.client.rest import RESTClientObject
from prefect_kubernetes.credentials import KubernetesClusterConfig

from infra.workers.kubernetes.errors import LoginFailed

EARLY = 0.8  # of the credentials' remaining time at the last read, after which they are renewed
PAUSE_S = 30  # between runs of a failing plugin while its last credentials are still valid
PLUGIN_S = 60  # a plugin that asks a question would never end

# Fills a configuration in from its source; returns when its credentials expire, if the source states it.
Load = Callable[[Configuration], Awaitable[dt.datetime | None]]


async def load_own_cluster(configuration: Configuration) -> None:
    """Read the service account of the worker's own pod; ConfigException outside of one."""
    config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]


async def load_kubeconfig(configuration: Configuration) -> dt.datetime | None:
    """Read KUBECONFIG again: another program might have renewed its credentials."""
    loader = await config.load_kube_config(client_configuration=configuration)
    return getattr(loader, "exec_plugin_expiry", None)


def load_block(cluster: KubernetesClusterConfig) -> Load:
    async def load(configuration: Configuration) -> dt.datetime | None:
        loader = await config.load_kube_config_from_dict(
            cluster.config, context=cluster.context_name, client_configuration=configuration
        )
        return getattr(loader, "exec_plugin_expiry", None)

    return load


class RenewingClient(ApiClient):
    """A client that logs in again before its credentials expire, and after a 401."""

    def __init__(self, configuration: Configuration, load: Load) -> None:
        super().__init__(configuration)
        self._load = load
        self._logins = 0
        self._renewing = asyncio.Lock()
        self._replaced: list[RESTClientObject] = []
        self._expires: dt.datetime | None = None
        self._renew_at: dt.datetime | None = None

    @classmethod
    async def open(cls, load: Load) -> Self:
        """Raise ConfigException without a configuration, LoginFailed without credentials."""
        configuration = Configuration()
        expires = await _loaded(load, configuration)
        client = cls(configuration, load)
        client._plan(expires)
        return client

    async def close(self) -> None:
        for replaced in self._replaced:
            await replaced.close()
        await super().close()

    async def call_api(self, *args: Any, **kwargs: Any) -> Any:
        await self._keep_fresh()
        logins = self._logins
        try:
            answer = await super().call_api(*args, **kwargs)
        except ApiException as error:
            if error.status != HTTPStatus.UNAUTHORIZED:
                raise
        else:
            if getattr(answer, "status", None) != HTTPStatus.UNAUTHORIZED:
                return answer
            answer.close()
        await self._renew(logins)
        return await super().call_api(*args, **kwargs)

    async def _keep_fresh(self) -> None:
        """Log in again in time; ignore failures while the last credentials are valid."""
        if self._renew_at is None or _now() < self._renew_at:
            return
        try:
            await self._renew(self._logins)
        except LoginFailed:
            if self._expires is None or _now() >= self._expires:
                raise
            self._renew_at = min(_now() + dt.timedelta(seconds=PAUSE_S), self._expires)

    async def _renew(self, logins: int) -> None:
        async with self._renewing:
            if self._logins != logins:
                return
            before = _tls(self.configuration)
            try:
                expires = await _loaded(self._load, self.configuration)
            except LoginFailed:
                raise
            except Exception as error:  # a missing file, or one being written
                raise LoginFailed(str(error) or type(error).__name__) from error
            self._plan(expires)
            if _tls(self.configuration) != before:  # a new certificate needs new connections
                self._replaced.append(self.rest_client)  # calls under way end on the old ones
                self.rest_client = RESTClientObject(self.configuration)

    def _plan(self, expires: dt.datetime | None) -> None:
        self._logins += 1
        self._expires = expires
        self._renew_at = None if expires is None else _now() + (expires - _now()) * EARLY


async def _loaded(load: Load, configuration: Configuration) -> dt.datetime | None:
    try:
        async with asyncio.timeout(PLUGIN_S):
            return await load(configuration)
    except TimeoutError:
        raise LoginFailed(f"its plugin did not answer within {PLUGIN_S} s") from None
    except config.ConfigException as error:
        if not str(error).startswith("exec:"):
            raise
        raise LoginFailed(str(error)) from error
    except FileNotFoundError as error:
        raise LoginFailed(f"{error.filename} does not exist") from error


def _tls(configuration: Configuration) -> tuple[Any, ...]:
    return configuration.cert_file, configuration.key_file, configuration.ssl_ca_cert


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


@asynccontextmanager
async def client_of(cluster: KubernetesClusterConfig | None) -> AsyncIterator[ApiClient]:
    """Open a client of a block's cluster, else of the worker's own one, else of its KUBECONFIG.

    `ConfigException` without any, `LoginFailed` without credentials.
    """
    if cluster:
        client = await RenewingClient.open(load_block(cluster))
    else:
        try:
            client = await RenewingClient.open(load_own_cluster)
        except config.ConfigException:
            client = await RenewingClient.open(load_kubeconfig)
    try:
        yield client
    finally:
        await client.close()
