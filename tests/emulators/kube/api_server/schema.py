"""Read a body like the API server: drop unknown fields with a warning, refuse wrong types.

Types are those of kubernetes_asyncio's models, which are made from the API's description.
"""

import re
from typing import Any, NamedTuple

from kubernetes_asyncio.client import models

from tests.emulators.kube.api_server.objects import Kind, Obj, bad_request

NAMES = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}
# Fields that Kubernetes reads as quantities, which can be numbers too.
QUANTITIES = {"limits", "requests", "capacity", "allocatable", "hard", "used", "sizeLimit", "divisor"}
INT64 = {"activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerationSeconds", "runAsUser"}
INT64 |= {"runAsGroup", "fsGroup", "generation", "deletionGracePeriodSeconds", "observedGeneration"}


class Place(NamedTuple):
    """A position in the body: `path` in messages, `owner` the Go type around, `field` the last name."""

    path: str
    owner: str
    field: str

    def inside(self, name: str, owner: str) -> "Place":
        return Place(f"{self.path}.{name}" if self.path else name, owner, name)


class Reader:
    """Reader of one object; `unknown` are the paths of dropped fields."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.unknown: list[str] = []

    def read(self, body: Any) -> Obj:
        if not isinstance(body, dict):
            raise self.refuse("json: cannot unmarshal into Go value of type " + self.kind.name)
        return self.fields(body, self.kind.model, Place("", self.kind.name, ""))

    def value(self, value: Any, type_: str, place: Place) -> Any:
        if place.field in QUANTITIES and not type_.startswith("V1"):
            return self.quantities(value, place)
        if found := re.fullmatch(r"list\[(.+)\]", type_):
            self.demand(value, list, "[]" + found[1], place)
            return [
                self.value(item, found[1], place._replace(path=f"{place.path}[{at}]"))
                for at, item in enumerate(value)
            ]
        if found := re.fullmatch(r"dict\(str, (.+)\)", type_):
            self.demand(value, dict, f"map[string]{go_type(found[1], place)}", place)
            return {k: self.value(v, found[1], place) for k, v in value.items() if v is not None}
        if type_ in ("object", "datetime"):
            return value
        if hasattr(models, type_):
            self.demand(value, dict, type_.removeprefix("V1"), place)
            return self.fields(value, type_, place)
        self.demand(value, {"str": str, "int": int, "bool": bool, "float": (int, float)}[type_], type_, place)
        return value

    def fields(self, value: Obj, type_: str, place: Place) -> Obj:
        model = getattr(models, type_)
        types = {model.attribute_map[name]: type_ for name, type_ in model.openapi_types.items()}
        read = {}
        for name, inner in value.items():
            here = place.inside(name, type_.removeprefix("V1"))
            if name not in types:
                self.unknown.append(here.path)
            elif inner is not None:
                read[name] = self.value(inner, types[name], here)
        return read

    def quantities(self, value: Any, place: Place) -> Any:
        """Return a quantity or a map of them as texts; null is 0, as in Go."""
        if isinstance(value, dict):
            return {name: self.quantities(inner, place) for name, inner in value.items()}
        if value is None:
            return "0"
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise self.refuse(f"json: cannot unmarshal {NAMES[type(value)]} into Go value of type string")
        return str(value)

    def demand(self, value: Any, wanted: Any, type_: str, place: Place) -> None:
        wrong_bool = isinstance(value, bool) and wanted is not bool
        if not isinstance(value, wanted) or wrong_bool:
            path = re.sub(r"\[\d+\]", "", place.path)
            field = f"{place.owner}.{path} of type {go_type(type_, place)}"
            raise self.refuse(f"json: cannot unmarshal {NAMES[type(value)]} into Go struct field {field}")

    def refuse(self, text: str) -> Exception:
        return bad_request(
            f'{self.kind.name} in version "v1" cannot be handled as a {self.kind.name}: {text}'
        )


def go_type(type_: str, place: Place) -> str:
    if type_ == "int":
        return "int64" if place.field in INT64 else "int32"
    return {"str": "string", "float": "float64"}.get(type_, type_)
