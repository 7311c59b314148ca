"""What the server says of itself, and of what a user may do."""

import uuid

from tests.emulators.kube.api_server.objects import GIT_VERSION, KINDS, Kind, Obj
from tests.emulators.kube.api_server.rbac import Asked, User, may
from tests.emulators.kube.api_server.store import Store

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
ALL_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": GIT_VERSION,
    "gitCommit": "0" * 40,
    "gitTreeState": "clean",
    "buildDate": "2026-06-01T00:00:00Z",
    "goVersion": "go1.26",
    "compiler": "gc",
    "platform": "linux/amd64",
}
GROUPS = sorted({kind.group for kind in KINDS.values() if kind.group} | {"authorization.k8s.io"})


def answer(path: str) -> Obj | None:
    """The document at a path that is no resource; None for all others."""
    path = path.rstrip("/")
    if path in ("/healthz", "/livez", "/readyz"):
        return {"status": "ok"}
    if path == "/version":
        return VERSION
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    if path == "/apis":
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group(name) for name in GROUPS]}
    for name in GROUPS:
        if path == f"/apis/{name}":
            return {"kind": "APIGroup", "apiVersion": "v1", **group(name)}
        if path == f"/apis/{name}/v1":
            return resources(name)
    return resources("") if path == "/api/v1" else None


def group(name: str) -> Obj:
    version = {"groupVersion": f"{name}/v1", "version": "v1"}
    return {"name": name, "versions": [version], "preferredVersion": version}


def resources(group_name: str) -> Obj:
    """The resources of a group, their subresources among them."""
    version = f"{group_name}/v1" if group_name else "v1"
    found = []
    for kind in KINDS.values():
        if kind.group == group_name:
            found.append(resource(kind, kind.plural, ALL_VERBS))
            found += [resource(kind, f"{kind.plural}/{sub}", verbs(sub)) for sub in kind.subresources]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": found}


def verbs(subresource: str) -> list[str]:
    return ["get"] if subresource == "log" else ["create"]


def resource(kind: Kind, name: str, verbs: list[str]) -> Obj:
    singular = kind.name.lower()
    return {
        "name": name,
        "singularName": singular,
        "namespaced": kind.namespaced,
        "kind": kind.name,
        "verbs": verbs,
    }


def review(store: Store, user: User, body: Obj) -> Obj:
    """A SelfSubjectAccessReview with its answer: system:basic-user lets everybody ask."""
    wanted = ((body or {}).get("spec") or {}).get("resourceAttributes") or {}
    kind = KINDS.get(wanted.get("resource", ""))
    allowed = False
    if kind and kind.group == wanted.get("group", ""):
        place = wanted.get("subresource", ""), wanted.get("namespace", ""), wanted.get("name", "")
        allowed = may(store, user, Asked(wanted.get("verb", ""), kind, *place))
    return (body or {}) | {"metadata": {"uid": str(uuid.uuid4())}, "status": {"allowed": allowed}}
