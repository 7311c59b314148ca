"""Start options of a pod's container: command, variables, volumes and limits."""

import base64
import re
from typing import Any

from tests.emulators.kube.api_server.objects import Obj, labels_of
from tests.emulators.kube.api_server.quantities import quantity
from tests.emulators.kube.api_server.store import Store
from tests.emulators.kube.nodes.pod_status import NODE_IP
from tests.emulators.kube.nodes.runner import Wanted

SHM = "/dev/shm"
REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")


class Missing(Exception):
    """A missing secret or config map; the text is the kubelet's."""


def wanted_of(store: Store, pod: Obj, image: str) -> Wanted:
    container = pod["spec"]["containers"][0]
    variables = environment(store, pod, container)
    memory = ((container.get("resources") or {}).get("limits") or {}).get("memory")
    security = (pod["spec"].get("securityContext") or {}) | (container.get("securityContext") or {})
    volumes = mounted(pod, container)
    return Wanted(
        name=pod["metadata"]["uid"],
        image=image,
        command=[expanded(part, variables) for part in container.get("command") or []],
        args=[expanded(part, variables) for part in container.get("args") or []],
        environment=variables | {"HOSTNAME": pod["metadata"]["name"]},
        folder=container.get("workingDir"),
        memory_bytes=int(quantity(memory)) if memory else None,
        user=user_of(security),
        read_only=bool(security.get("readOnlyRootFilesystem")),
        **volumes,
    )


def user_of(security: Obj) -> str | None:
    if "runAsUser" not in security:
        return None
    return f"{security['runAsUser']}:{security.get('runAsGroup', 0)}"


def mounted(pod: Obj, container: Obj) -> dict[str, Any]:
    """Return memory volumes and host folders; another emptyDir is in memory too, without a limit."""
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or []}
    found: dict[str, Any] = {"tmpfs": {}, "binds": [], "shm_bytes": None}
    for mount in container.get("volumeMounts") or []:
        volume, path = volumes[mount["name"]], mount["mountPath"]
        if "hostPath" in volume:
            found["binds"].append((volume["hostPath"]["path"], path, bool(mount.get("readOnly"))))
        elif "emptyDir" in volume:
            limit = volume["emptyDir"].get("sizeLimit")
            size = int(quantity(limit)) if limit else None
            if path == SHM and volume["emptyDir"].get("medium") == "Memory":
                found["shm_bytes"] = size
            else:
                found["tmpfs"][path] = size
    return found


def environment(store: Store, pod: Obj, container: Obj) -> dict[str, str]:
    """Return the container's variables in the order of their references."""
    variables: dict[str, str] = {}
    for source in container.get("envFrom") or []:
        for plural, field in (("secrets", "secretRef"), ("configmaps", "configMapRef")):
            if ref := source.get(field):
                data = data_of(store, pod, plural, ref)
                variables |= {source.get("prefix", "") + name: value for name, value in data.items()}
    for entry in container.get("env") or []:
        value = entry.get("value")
        if "valueFrom" in entry:
            value = value_from(store, pod, entry["valueFrom"])
            if value is None:
                continue
        variables[entry["name"]] = expanded(value or "", variables)
    return variables


def value_from(store: Store, pod: Obj, source: Obj) -> str | None:
    if ref := source.get("fieldRef"):
        return field_of(pod, ref["fieldPath"])
    for plural, field in (("secrets", "secretKeyRef"), ("configmaps", "configMapKeyRef")):
        if ref := source.get(field):
            data = data_of(store, pod, plural, ref)
            if ref["key"] not in data and not ref.get("optional"):
                namespace, word = pod["metadata"]["namespace"], named(plural)
                raise Missing(f"couldn't find key {ref['key']} in {word} {namespace}/{ref['name']}")
            return data.get(ref["key"])
    return ""


def named(plural: str) -> str:
    return "Secret" if plural == "secrets" else "ConfigMap"


def data_of(store: Store, pod: Obj, plural: str, ref: Obj) -> dict[str, str]:
    """Return the contents of a secret or config map; raise Missing unless optional."""
    found = store.find(plural, (pod["metadata"]["namespace"], ref["name"]))
    if found is None:
        if ref.get("optional"):
            return {}
        raise Missing(f'{named(plural).lower()} "{ref["name"]}" not found')
    data = found.get("data") or {}
    if plural == "configmaps":
        return dict(data)
    decoded = {name: base64.b64decode(value).decode() for name, value in data.items()}
    return decoded | (found.get("stringData") or {})


def field_of(pod: Obj, path: str) -> str:
    if found := re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path):
        source = labels_of(pod) if found[1] == "labels" else pod["metadata"].get("annotations") or {}
        return source.get(found[2], "")
    if path in ("status.podIP", "status.hostIP"):
        return NODE_IP
    value: Any = pod
    for name in path.split("."):
        value = (value or {}).get(name)
    return str(value or "")


def expanded(text: str, variables: dict[str, str]) -> str:
    """Replace $(NAME) of known variables, and $$ by $."""

    def found(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else variables.get(match[1], match[0])

    return REFERENCE.sub(found, text)
