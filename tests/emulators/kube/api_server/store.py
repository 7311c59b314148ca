"""Objects with versions, the history for watches, and the snapshots for pages."""

import copy
import uuid
from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

from tests.emulators.kube.api_server.objects import KINDS, Key, Obj, Refused, key_of, not_found, stamp

FIRST_VERSION = 100


class Change(NamedTuple):
    """One write: ADDED, MODIFIED or DELETED, and the object before it."""

    version: int
    plural: str
    type: str
    object: Obj
    before: Obj | None


class Store:
    """Like etcd and the watch cache. A stored object is replaced, never changed."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[Key, Obj]] = {plural: {} for plural in KINDS}
        self.version = FIRST_VERSION
        self.history: list[Change] = []
        self.compacted = FIRST_VERSION
        self.listeners: list[Callable[[Change], None]] = []
        self.owned: dict[str, set[Key]] = defaultdict(set)  # uid of the owner → its pods
        self.snapshots: dict[int, list[Obj]] = {}

    def find(self, plural: str, key: Key) -> Obj | None:
        return self.objects[plural].get(key)

    def get(self, plural: str, key: Key) -> Obj:
        if (found := self.find(plural, key)) is None:
            raise not_found(KINDS[plural], key[1])
        return found

    def all(self, plural: str, namespace: str = "") -> list[Obj]:
        found = self.objects[plural].items()
        return [obj for key, obj in sorted(found) if namespace in ("", key[0])]

    def pods_of(self, uid: str) -> list[Obj]:
        return [self.objects["pods"][key] for key in sorted(self.owned.get(uid, ()))]

    def add(self, plural: str, obj: Obj) -> Obj:
        kind, obj = KINDS[plural], copy.deepcopy(obj)
        metadata = obj.setdefault("metadata", {})
        if key_of(obj) in self.objects[plural]:
            name = metadata["name"]
            details = {"name": name, "group": kind.group, "kind": plural}
            raise Refused(409, "AlreadyExists", f'{kind.full} "{name}" already exists', **details)
        metadata.setdefault("uid", str(uuid.uuid4()))
        metadata.setdefault("creationTimestamp", stamp())
        obj = {"kind": kind.name, "apiVersion": kind.version} | obj
        return self.write("ADDED", plural, obj, None)

    def update(self, plural: str, key: Key, change: Callable[[Obj], None]) -> Obj | None:
        """Return the object after `change` of a copy, or None if it does not exist.

        An unchanged object is not written. An object in deletion goes with its last finalizer.
        """
        if (before := self.find(plural, key)) is None:
            return None
        obj = copy.deepcopy(before)
        change(obj)
        if obj == before:
            return before
        metadata = obj["metadata"]
        if not metadata.get("finalizers"):
            metadata.pop("finalizers", None)
        over = "deletionTimestamp" in metadata and not metadata.get("deletionGracePeriodSeconds")
        gone = over and not metadata.get("finalizers")
        return self.write("DELETED" if gone else "MODIFIED", plural, obj, before)

    def remove(self, plural: str, key: Key) -> None:
        """Delete the object despite finalizers."""
        if before := self.find(plural, key):
            self.write("DELETED", plural, copy.deepcopy(before), before)

    def write(self, type_: str, plural: str, obj: Obj, before: Obj | None) -> Obj:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        key = key_of(obj)
        if type_ == "DELETED":
            del self.objects[plural][key]
        else:
            self.objects[plural][key] = obj
        if plural == "pods":
            self.index(obj, before, type_)
        change = Change(self.version, plural, type_, obj, before)
        self.history.append(change)
        for listener in list(self.listeners):
            listener(change)
        return obj

    def index(self, pod: Obj, before: Obj | None, type_: str) -> None:
        for owner in (before or {"metadata": {}})["metadata"].get("ownerReferences") or []:
            self.owned[owner["uid"]].discard(key_of(pod))
        if type_ != "DELETED":
            for owner in pod["metadata"].get("ownerReferences") or []:
                self.owned[owner["uid"]].add(key_of(pod))

    def since(self, version: int) -> list[Change]:
        """Return the changes after that version; 410 if they are forgotten."""
        if version < self.compacted:
            text = f"too old resource version: {version} ({self.compacted})"
            raise Refused(410, "Expired", text)
        start = len(self.history)
        while start and self.history[start - 1].version > version:
            start -= 1
        return self.history[start:]

    def compact(self) -> None:
        """Forget history and snapshots, as etcd does every five minutes."""
        self.compacted, self.history = self.version, []
        self.snapshots.clear()
