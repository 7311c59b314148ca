"""The kinds that the Kubernetes emulator serves, and helpers for their objects."""

import datetime as dt
import random
from typing import Any, NamedTuple

Obj = dict[str, Any]
Key = tuple[str, str]  # namespace ("" for what belongs to none), name

# k8s.io/apimachinery/pkg/util/rand: neither vowels nor what looks like one
SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
LONGEST_GENERATED = 63  # k8s.io/apiserver/pkg/storage/names: the base is cut so that the suffix fits


class Kind(NamedTuple):
    """One resource of the API; `model` is its class in kubernetes_asyncio."""

    plural: str
    group: str
    name: str
    namespaced: bool
    model: str
    subresources: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        return f"{self.group}/v1" if self.group else "v1"

    @property
    def full(self) -> str:
        """Its name in messages: jobs.batch."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


RBAC = "rbac.authorization.k8s.io"
KINDS = {
    kind.plural: kind
    for kind in (
        Kind("namespaces", "", "Namespace", False, "V1Namespace"),
        Kind("nodes", "", "Node", False, "V1Node"),
        Kind("pods", "", "Pod", True, "V1Pod", ("log", "eviction")),
        Kind("events", "", "Event", True, "CoreV1Event"),
        Kind("secrets", "", "Secret", True, "V1Secret"),
        Kind("configmaps", "", "ConfigMap", True, "V1ConfigMap"),
        Kind("serviceaccounts", "", "ServiceAccount", True, "V1ServiceAccount", ("token",)),
        Kind("resourcequotas", "", "ResourceQuota", True, "V1ResourceQuota"),
        Kind("jobs", "batch", "Job", True, "V1Job"),
        Kind("roles", RBAC, "Role", True, "V1Role"),
        Kind("rolebindings", RBAC, "RoleBinding", True, "V1RoleBinding"),
        Kind("clusterroles", RBAC, "ClusterRole", False, "V1ClusterRole"),
        Kind("clusterrolebindings", RBAC, "ClusterRoleBinding", False, "V1ClusterRoleBinding"),
    )
}
BY_NAME = {kind.name: kind for kind in KINDS.values()}


class Refused(Exception):
    def __init__(self, code: int, reason: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code, self.headers = code, {"Retry-After": "1"} if code == 429 else {}
        self.body: Obj = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            **({"details": details} if details else {}),
            "code": code,
        }


def not_found(kind: Kind, name: str) -> Refused:
    details = {"name": name, "kind": kind.plural} | ({"group": kind.group} if kind.group else {})
    return Refused(404, "NotFound", f'{kind.full} "{name}" not found', **details)


def bad_request(message: str) -> Refused:
    return Refused(400, "BadRequest", message)


def invalid(kind: Kind, name: str, errors: list[str]) -> Refused:
    """Return 422 for a readable but invalid object."""
    said = errors[0] if len(errors) == 1 else "[" + ", ".join(errors) + "]"
    named = f"{kind.name}.{kind.group}" if kind.group else kind.name
    return Refused(422, "Invalid", f'{named} "{name}" is invalid: {said}', name=name, kind=kind.name)


def stamp(after_s: float = 0.0) -> str:
    """Return the time after some seconds as the API writes it: whole seconds."""
    return (dt.datetime.now(dt.UTC) + dt.timedelta(seconds=after_s)).strftime("%Y-%m-%dT%H:%M:%SZ")


def suffix(length: int = 5) -> str:
    return "".join(random.choices(SUFFIX_LETTERS, k=length))


def generated(base: str) -> str:
    return base[: LONGEST_GENERATED - 5] + suffix()


def key_of(obj: Obj) -> Key:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def labels_of(obj: Obj) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def condition(type_: str, status: bool | str = True, **more: str) -> Obj:
    """Return a status condition; `status` is True, False or Unknown."""
    word = status if isinstance(status, str) else str(status)
    return {"type": type_, "status": word, "lastTransitionTime": stamp(), **more}


def set_condition(obj: Obj, new: Obj) -> None:
    """Set the condition of that type; an unchanged status keeps its time."""
    conditions = list(obj.setdefault("status", {}).get("conditions") or [])
    for at, old in enumerate(conditions):
        if old["type"] == new["type"]:
            if old["status"] == new["status"]:
                new = new | {"lastTransitionTime": old["lastTransitionTime"]}
            conditions[at] = new
            break
    else:
        conditions.append(new)
    obj["status"]["conditions"] = conditions


def find_condition(obj: Obj, type_: str) -> Obj | None:
    conditions = (obj.get("status") or {}).get("conditions") or []
    return next((c for c in conditions if c["type"] == type_ and c["status"] == "True"), None)


def finished(pod: Obj) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def leaving(obj: Obj) -> bool:
    return "deletionTimestamp" in obj["metadata"]
