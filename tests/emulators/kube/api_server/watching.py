"""Lists in pages, and watches."""

import asyncio
import base64
import json
from typing import Any

from aiohttp import web

from tests.emulators.kube.api_server.objects import Kind, Obj, Refused, bad_request
from tests.emulators.kube.api_server.selectors import Test
from tests.emulators.kube.api_server.store import Change, Store

TRUE = {"1", "t", "T", "true", "TRUE", "True"}  # as Go reads a boolean
LOOK_S = 1.0  # after which a stream notices that its reader has gone
WATCH_S = 3600.0  # kube-apiserver --min-request-timeout: a watch lasts half an hour to an hour
EXPIRED_PAGE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list without the continue parameter, or use the continue token in this response to retrieve the "
    "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
    "that were created, modified, or deleted between the time the first chunk was returned and now may show "
    "up in the list."
)


def list_page(store: Store, kind: Kind, namespace: str, query: dict[str, str], test: Test) -> Obj:
    limit = whole(query, "limit")
    if token := query.get("continue"):
        version, start = page_at(store, token)
        found = store.snapshots[version]
    else:
        version, start = store.version, 0
        found = [obj for obj in store.all(kind.plural, namespace) if test(obj)]
    metadata: Obj = {"resourceVersion": str(version)}
    items = found[start : start + limit] if limit else found[start:]
    if left := len(found) - start - len(items):
        store.snapshots[version] = found
        metadata["continue"] = page_token(version, start + len(items))
        if not query.get("labelSelector") and not query.get("fieldSelector"):
            metadata["remainingItemCount"] = left
    bare = [
        {name: value for name, value in item.items() if name not in ("kind", "apiVersion")} for item in items
    ]
    return {"kind": f"{kind.name}List", "apiVersion": kind.version, "metadata": metadata, "items": bare}


def page_token(version: int, start: int) -> str:
    return base64.urlsafe_b64encode(json.dumps([version, start]).encode()).decode()


def page_at(store: Store, token: str) -> tuple[int, int]:
    try:
        version, start = json.loads(base64.urlsafe_b64decode(token))
    except ValueError:
        raise bad_request("continue key is not valid: illegal base64 data") from None
    if version not in store.snapshots:
        raise Refused(410, "Expired", EXPIRED_PAGE)
    return version, start


def whole(query: dict[str, str], name: str) -> int:
    try:
        return int(query.get(name) or 0)
    except ValueError:
        value = query[name]
        raise bad_request(f'strconv.ParseInt: parsing "{value}": invalid syntax') from None


class Watch:
    def __init__(self, store: Store, kind: Kind, namespace: str, test: Test) -> None:
        self.store, self.kind, self.namespace, self.test = store, kind, namespace, test
        self.changes: asyncio.Queue[Change | None] = asyncio.Queue()
        self.sent = 0

    def put(self, change: Change) -> None:
        if change.plural == self.kind.plural:
            self.changes.put_nowait(change)

    def close(self) -> None:
        self.changes.put_nowait(None)

    def event(self, change: Change) -> tuple[str, Obj] | None:
        """Return a change as this watch sees it: entering its selection adds, leaving it deletes."""
        obj, before = change.object, change.before
        if self.namespace not in ("", obj["metadata"].get("namespace")):
            return None
        was, now = before is not None and self.test(before), self.test(obj)
        if change.type == "DELETED":
            return ("DELETED", obj) if was or now else None
        if was and not now and before:
            version = obj["metadata"]["resourceVersion"]
            return "DELETED", before | {"metadata": before["metadata"] | {"resourceVersion": version}}
        return ("MODIFIED" if was else "ADDED", obj) if now else None

    def first(self, version: str) -> list[tuple[str, Obj]]:
        """Return the first events: all objects, or the changes since a version."""
        if version in ("", "0"):
            return [
                ("ADDED", obj) for obj in self.store.all(self.kind.plural, self.namespace) if self.test(obj)
            ]
        if not version.isdigit():
            raise bad_request(f'invalid resource version "{version}": strconv.ParseUint: invalid syntax')
        events = map(self.event, (c for c in self.store.since(int(version)) if c.plural == self.kind.plural))
        return [event for event in events if event]

    async def serve(self, request: web.Request, bookmark_s: float) -> web.StreamResponse:
        query = dict(request.query)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        self.store.listeners.append(self.put)
        try:
            try:
                events = self.first(query.get("resourceVersion", ""))
            except Refused as refused:
                if refused.code != 410:
                    raise
                events = [("ERROR", refused.body)]
            await response.prepare(request)
            for event in events:
                await send(response, *event)
            if not events or events[-1][0] != "ERROR":
                await self.follow(request, response, query, bookmark_s)
        except ConnectionError:
            pass
        finally:
            self.store.listeners.remove(self.put)
        return response

    async def follow(
        self, request: web.Request, response: web.StreamResponse, query: dict[str, str], bookmark_s: float
    ) -> None:
        clock = asyncio.get_running_loop().time
        end, marked = clock() + (whole(query, "timeoutSeconds") or WATCH_S), clock()
        marks = query.get("allowWatchBookmarks") in TRUE
        while (left_s := end - clock()) > 0 and not gone(request):
            wait_s = min(left_s, LOOK_S, bookmark_s if marks else LOOK_S)
            try:
                change = await asyncio.wait_for(self.changes.get(), wait_s)
            except TimeoutError:
                if marks and clock() - marked >= bookmark_s:
                    marked = clock()
                    await send(response, "BOOKMARK", self.bookmark())
                continue
            if change is None:
                if request.transport:
                    request.transport.close()
                return
            if event := self.event(change):
                await send(response, *event)

    def bookmark(self) -> Obj:
        metadata = {"resourceVersion": str(self.store.version), "creationTimestamp": None}
        return {"kind": self.kind.name, "apiVersion": self.kind.version, "metadata": metadata}


def gone(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


async def send(response: web.StreamResponse, type_: str, obj: Any) -> None:
    await response.write(json.dumps({"type": type_, "object": obj}).encode() + b"\n")
