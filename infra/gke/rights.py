"""The jobs' namespace and secret, and the worker's rights."""

import asyncio
import base64
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import yaml
from aiohttp import ClientError
from kubernetes_asyncio import config
from kubernetes_asyncio.client import ApiClient, CoreV1Api, RbacAuthorizationV1Api
from kubernetes_asyncio.client.exceptions import ApiException
from kubernetes_asyncio.config import ConfigException

from infra.gke.errors import GkeError

ROLE = Path(__file__).with_name("role.yaml")
NAMESPACE = "gridbench"
SECRET = "prefect"  # its keys are `key`, of Prefect Cloud, and `auth`, of a self-hosted server
Object = dict[str, Any]


def apply(kubeconfig: Path, secret: Mapping[str, str], file: Path = ROLE) -> None:
    documents = [document for document in yaml.safe_load_all(file.read_text()) if document]
    data = {name: base64.b64encode(value.encode()).decode() for name, value in secret.items()}
    metadata = {"name": SECRET, "namespace": NAMESPACE}
    manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}
    try:
        asyncio.run(_apply(kubeconfig, [*documents, manifest]))
    except ApiException as error:
        words = " ".join(str(error.body or error.reason).split())[:300]
        raise GkeError(
            f"the cluster refuses the namespace and rights of its jobs ({error.status}): {words}"
        ) from None
    except (ConfigException, ClientError, OSError) as error:
        raise GkeError(f"the cluster can't be reached with {kubeconfig}: {error}") from None


async def _apply(kubeconfig: Path, documents: list[Object]) -> None:
    client = await config.new_client_from_config(config_file=str(kubeconfig))
    try:
        for document in documents:
            await _ensure(client, document)
    finally:
        await client.close()


async def _ensure(client: ApiClient, document: Object) -> None:
    create, patch = _calls(client, document["kind"])
    where = (document["metadata"]["namespace"],) if "namespace" in document["metadata"] else ()
    try:
        await create(*where, document)
    except ApiException as error:
        if error.status != HTTPStatus.CONFLICT:
            raise
        await patch(document["metadata"]["name"], *where, document)


def _calls(client: ApiClient, kind: str) -> Any:
    core, rights = CoreV1Api(client), RbacAuthorizationV1Api(client)
    return {
        "Namespace": (core.create_namespace, core.patch_namespace),
        "ServiceAccount": (core.create_namespaced_service_account, core.patch_namespaced_service_account),
        "Secret": (core.create_namespaced_secret, core.patch_namespaced_secret),
        "Role": (rights.create_namespaced_role, rights.patch_namespaced_role),
        "RoleBinding": (rights.create_namespaced_role_binding, rights.patch_namespaced_role_binding),
    }[kind]
