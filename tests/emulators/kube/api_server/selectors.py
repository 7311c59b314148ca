"""Label and field selectors of queries."""

import re
from collections.abc import Callable
from typing import Any

from tests.emulators.kube.api_server.objects import Kind, Obj, bad_request, labels_of

Test = Callable[[Obj], bool]
SET = re.compile(r"([\w./-]+)\s+(in|notin)\s*\(([^)]*)\)")
EQUALITY = re.compile(r"([\w./-]+)\s*(!=|==|=)\s*([\w.-]*)")
PRESENCE = re.compile(r"(!?)\s*([\w./-]+)")
FIELD = re.compile(r"([\w.\[\]]+)(!=|==|=)(.*)")
ALWAYS = {"metadata.name", "metadata.namespace"}
# pkg/registry/core/pod/strategy.go, pkg/registry/core/event/strategy.go, pkg/registry/batch/job/strategy.go
SELECTABLE = {
    "pods": {"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"}
    | {"spec.hostNetwork", "status.phase", "status.podIP", "status.nominatedNodeName"},
    "events": {f"involvedObject.{name}" for name in ("kind", "namespace", "name", "uid", "apiVersion")}
    | {"reason", "reportingComponent", "source", "type"},
    "jobs": {"status.successful"},
    "nodes": {"spec.unschedulable"},
}


def label_test(text: str) -> Test:
    """Return a test of labels; 400 for an unreadable selector."""
    tests = [requirement(part.strip()) for part in re.split(r",(?![^(]*\))", text) if part.strip()]
    return lambda obj: all(test(labels_of(obj)) for test in tests)


def requirement(text: str) -> Callable[[dict[str, str]], bool]:
    if found := SET.fullmatch(text):
        name, operator, values = found[1], found[2], {value.strip() for value in found[3].split(",")}
        return lambda labels: (labels.get(name) in values) == (operator == "in")
    if found := EQUALITY.fullmatch(text):
        name, operator, value = found.groups()
        return lambda labels: (labels.get(name) == value) == (operator != "!=")
    if found := PRESENCE.fullmatch(text):
        absent, name = found.groups()
        return lambda labels: (name in labels) != bool(absent)
    raise bad_request(f"unable to parse requirement: found '{text}', expected: in, notin, =, ==, !=, gt, lt")


def field_test(kind: Kind, text: str) -> Test:
    """Return a test of fields; 400 if the kind cannot be selected by them."""
    tests: list[tuple[str, bool, str]] = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        found = FIELD.fullmatch(part)
        if not found:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        name, operator, value = found.groups()
        if name not in ALWAYS | SELECTABLE.get(kind.plural, set()):
            where = f'/v1, Resource={kind.plural}" that match label selector "", field selector "{text}"'
            raise bad_request(f'Unable to find "{kind.group}{where}: field label not supported: {name}')
        tests.append((name, operator == "!=", value))
    return lambda obj: all((value_at(obj, name) == value) != unequal for name, unequal, value in tests)


def value_at(obj: Obj, path: str) -> str:
    if path == "source":
        path = "source.component"
    if path == "status.successful":
        return str((obj.get("status") or {}).get("succeeded", 0))
    value: Any = obj
    for name in path.split("."):
        value = (value or {}).get(name)
    return str(value).lower() if isinstance(value, bool) else str(value or "")
