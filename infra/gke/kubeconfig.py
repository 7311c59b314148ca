"""Credentials for kubectl: a command that fetches a token, never a token."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from infra.gke.clusters import GkeCluster
from infra.gke.errors import GkeError

PLUGIN = "gke-gcloud-auth-plugin"
OWN_CREDENTIALS = "--use_application_default_credentials"  # those of `up`; else it asks gcloud's own login
HINT = "install it with `gcloud components install gke-gcloud-auth-plugin`, or the package of that name"


def context_name(project: str, zone: str, cluster: str) -> str:
    return f"gke_{project}_{zone}_{cluster}"


def kubeconfig(project: str, cluster: GkeCluster) -> dict[str, Any]:
    if not cluster.endpoint or not cluster.ca:
        raise GkeError(
            f"cluster {cluster.name} has no address yet ({cluster.status}): try again in a few minutes"
        )
    name = context_name(project, cluster.zone, cluster.name)
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": PLUGIN,
        "args": [OWN_CREDENTIALS],
        "installHint": HINT,
        "interactiveMode": "IfAvailable",
        "provideClusterInfo": True,
    }
    server = {"server": f"https://{cluster.endpoint}", "certificate-authority-data": cluster.ca}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": server}],
        "users": [{"name": name, "user": {"exec": plugin}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


def write(path: Path, project: str, cluster: GkeCluster) -> None:
    config = kubeconfig(project, cluster)
    check_free(path)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # a temporary file's mode is 0600 from the start
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, prefix=".", suffix=".part", delete=False
        ) as file:
            temporary = file.name
            yaml.safe_dump(config, file, sort_keys=False)
        os.replace(temporary, path)
    except OSError as error:
        if temporary:
            with suppress(OSError):
                os.unlink(temporary)
        raise GkeError(f"--kubeconfig {path} can't be written ({error.strerror})") from None


def check_free(path: Path) -> None:
    """Raise `GkeError` for another program's file, such as ~/.kube/config."""
    _context_in(path)


def forget(path: Path, context: str) -> bool:
    try:
        if _context_in(path) != context:
            return False
        path.unlink()
    except (GkeError, OSError):
        return False
    return True


def _context_in(path: Path) -> str | None:
    try:
        raw = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        words = " ".join(str(error).split())
        raise GkeError(f"--kubeconfig {path} can't be read ({words})") from None
    if raw is None:
        return None
    try:
        (context,), (user,) = raw["contexts"], raw["users"]
        if user["user"]["exec"]["installHint"] == HINT:
            return str(context["name"])
    except (KeyError, TypeError, ValueError):
        pass
    raise GkeError(f"--kubeconfig {path} was not written by Gridbench: name another file")
