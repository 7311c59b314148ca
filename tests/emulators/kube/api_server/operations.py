"""Effects of allowed verbs on the store."""

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.emulators.kube import garbage
from tests.emulators.kube.api_server.admission import Warn, common_errors
from tests.emulators.kube.api_server.objects import (
    Kind,
    Obj,
    Refused,
    bad_request,
    finished,
    invalid,
    key_of,
    stamp,
)
from tests.emulators.kube.api_server.quantities import WrongQuantity, quantity
from tests.emulators.kube.api_server.rbac import service_account
from tests.emulators.kube.api_server.schema import Reader
from tests.emulators.kube.api_server.selectors import Test, field_test, label_test
from tests.emulators.kube.api_server.watching import list_page
from tests.emulators.kube.nodes import logs

if TYPE_CHECKING:
    from tests.emulators.kube.api_server.api import Target
    from tests.emulators.kube.control import Control

OPTIONS = ("propagationPolicy", "gracePeriodSeconds", "preconditions", "orphanDependents", "dryRun")
READ_ONLY = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "name",
    "namespace",
)
MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
ONE_CONTAINER = "this stand-in runs pods with one container and without init containers"


class Operations:
    def __init__(self, control: "Control") -> None:
        self.cluster = control.cluster
        self.store = control.cluster.store

    async def carry_out(
        self, verb: str, target: "Target", request: web.Request, body: Any, warn: Warn
    ) -> Any:
        query = dict(request.query)
        kind, key = target.kind, (target.namespace, target.name)
        if target.subresource:
            return await self.subresource(target, request, body)
        match verb:
            case "get":
                return self.store.get(kind.plural, key)
            case "list":
                return list_page(self.store, kind, target.namespace, query, self.test(target, query))
            case "create":
                return self.create(target, query, body, warn)
            case "delete":
                return self.delete(kind, key, query | (body or {}), warn)
            case "deletecollection":
                for obj in self.store.all(kind.plural, target.namespace):
                    if self.test(target, query)(obj):
                        self.delete(kind, key_of(obj), query | (body or {}), lambda _: None)
                return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return self.change(verb, kind, key, body)

    def test(self, target: "Target", query: dict[str, str]) -> Test:
        by_label = label_test(query.get("labelSelector", ""))
        by_field = field_test(target.kind, query.get("fieldSelector", ""))
        named = (lambda obj: obj["metadata"]["name"] == target.name) if target.name else (lambda obj: True)
        return lambda obj: named(obj) and by_label(obj) and by_field(obj)

    async def subresource(self, target: "Target", request: web.Request, body: Any) -> Any:
        key = (target.namespace, target.name)
        if target.subresource == "log" and request.method == "GET":
            return await logs.serve(self.cluster, request, self.store.get("pods", key))
        if request.method != "POST":
            raise Refused(
                405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
            )
        if target.subresource == "eviction":
            return self.evict(key, body or {})
        self.store.get("serviceaccounts", key)
        token = self.cluster.tokens.issue(service_account(*key))
        spec = (body or {}).get("spec") or {}
        status = {"token": token, "expirationTimestamp": stamp(spec.get("expirationSeconds") or 3600)}
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "spec": spec,
            "status": status,
        }

    def evict(self, key: tuple[str, str], body: Obj) -> Obj:
        """Serve pods/eviction; there are no disruption budgets."""
        pod, options = self.store.get("pods", key), body.get("deleteOptions") or {}
        if finished(pod):
            garbage.delete_pod(self.store, key)
        else:
            garbage.evict(self.store, key, options.get("gracePeriodSeconds"))
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}

    def create(self, target: "Target", query: dict[str, str], body: Any, warn: Warn) -> Obj:
        obj = self.read(target.kind, body, query, warn)
        spec = obj.get("spec") or {}
        pod_spec = (spec.get("template") or {}).get("spec") or {} if target.kind.plural == "jobs" else spec
        several = len(pod_spec.get("containers") or []) > 1 or pod_spec.get("initContainers")
        if several and target.kind.plural in ("jobs", "pods"):
            raise Refused(501, "NotImplemented", ONE_CONTAINER)
        return self.cluster.create(target.kind.plural, target.namespace, obj)

    def read(self, kind: Kind, body: Any, query: dict[str, str], warn: Warn) -> Obj:
        """Read the body; unknown fields are dropped, warned about or refused, as requested."""
        if isinstance(body, dict) and body.get("kind", kind.name) != kind.name:
            given = f'"{body["kind"]}" in the body does not match the kind "{kind.name}" of the path'
            raise bad_request(f"the kind {given}")
        reader = Reader(kind)
        obj = reader.read(body)
        check_quantities(kind, obj)
        unknown = [f'unknown field "{path}"' for path in reader.unknown]
        mode = query.get("fieldValidation", "Warn")
        if unknown and mode == "Strict":
            said = f"strict decoding error: {', '.join(unknown)}"
            raise bad_request(f'{kind.name} in version "v1" cannot be handled as a {kind.name}: {said}')
        if mode == "Warn":
            for text in unknown:
                warn(text)
        return obj

    def delete(self, kind: Kind, key: tuple[str, str], options: Obj, warn: Warn) -> Obj:
        """Answer a DELETE: the object if it still exists, else a Status."""
        obj = self.store.get(kind.plural, key)
        garbage.check_preconditions(kind.plural, obj, options)
        if kind.plural == "jobs":
            policy = options.get("propagationPolicy")
            if policy not in (None, "Foreground", "Background", "Orphan"):
                raise bad_request(f'invalid propagationPolicy "{policy}"')
            if policy is None:
                warn(garbage.ORPHAN_WARNING)
            garbage.delete_job(self.store, key, policy or "Orphan")
        elif kind.plural == "pods":
            grace = options.get("gracePeriodSeconds")
            return garbage.delete_pod(self.store, key, None if grace is None else int(grace)) or obj
        elif kind.plural == "namespaces":
            self.store.update("namespaces", key, end_namespace)
        else:
            self.store.remove(kind.plural, key)
        if left := self.store.find(kind.plural, key):
            return left
        details = {"name": key[1], "group": kind.group, "kind": kind.plural, "uid": obj["metadata"]["uid"]}
        details = {name: value for name, value in details.items() if value}
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}

    def change(self, verb: str, kind: Kind, key: tuple[str, str], body: Any) -> Obj:
        """Apply PUT or PATCH; patches are merged field by field."""
        old = self.store.get(kind.plural, key)
        if not isinstance(body, dict):
            raise bad_request("the body of a change must be an object")
        version = (body.get("metadata") or {}).get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            text = f'Operation cannot be fulfilled on {kind.full} "{key[1]}": {MODIFIED}'
            raise Refused(409, "Conflict", text, name=key[1], kind=kind.plural)
        new = copy.deepcopy(body) if verb == "update" else merged(old, body)
        new = Reader(kind).read(new)
        for field in READ_ONLY:
            if field in old["metadata"]:
                new.setdefault("metadata", {})[field] = old["metadata"][field]
        if kind.plural in ("jobs", "pods") and "status" in old:
            new["status"] = old["status"]
        if errors := common_errors(kind, new):
            raise invalid(kind, key[1], errors)
        return self.store.update(kind.plural, key, replaced_by(new)) or old


def replaced_by(new: Obj) -> Callable[[Obj], None]:
    def change(obj: Obj) -> None:
        identity = {name: obj[name] for name in ("kind", "apiVersion")}
        version = obj["metadata"]["resourceVersion"]
        obj.clear()
        obj.update(identity | new)
        obj["metadata"]["resourceVersion"] = version

    return change


def end_namespace(namespace: Obj) -> None:
    # A grace of a second keeps the store from taking it away before it is empty.
    namespace["metadata"] |= {"deletionTimestamp": stamp(), "deletionGracePeriodSeconds": 1}
    namespace["status"] = {"phase": "Terminating"}


def merged(old: Any, patch: Any) -> Any:
    """Apply a JSON merge patch: null deletes a field."""
    if not isinstance(patch, dict):
        return patch
    new = copy.deepcopy(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            new.pop(name, None)
        else:
            new[name] = merged(new.get(name), value)
    return new


def check_quantities(kind: Kind, value: Any, inside: bool = False) -> None:
    """Raise 400 for an unreadable quantity, before other errors."""
    if isinstance(value, dict):
        for name, inner in value.items():
            counted = name in ("limits", "requests", "sizeLimit", "hard") or inside
            check_quantities(kind, inner, counted)
    elif isinstance(value, list):
        for item in value:
            check_quantities(kind, item)
    elif inside:
        try:
            quantity(value)
        except WrongQuantity as error:
            said = f'{kind.name} in version "v1" cannot be handled as a {kind.name}: {error}'
            raise bad_request(said) from None
