"""HTTP side of the API server: user, target, fault and answer."""

import json
import re
from typing import Any, NamedTuple

from aiohttp import web

from tests.emulators.kube.api_server.objects import KINDS, Kind, Refused, bad_request
from tests.emulators.kube.api_server.operations import Operations
from tests.emulators.kube.api_server.rbac import ANONYMOUS, Asked, User, authorize
from tests.emulators.kube.api_server.watching import TRUE, Watch
from tests.emulators.kube.control import Control, Fault, Request

PATH = re.compile(
    r"/(?:api/v1|apis/(?P<group>[^/]+)/v1)(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[a-z]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<subresource>[a-z]+))?"
)
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
NO_RESOURCE = "the server could not find the requested resource"
NOT_JSON = "the body of the request was in an unknown format - accepted media types include: application/json"
TEXTS = {
    429: "Too many requests, please try again later.\n",
    502: "<html><head><title>502 Bad Gateway</title></head></html>\n",
}
REASONS = {
    401: ("Unauthorized", "Unauthorized"),
    403: ("Forbidden", "forbidden"),
    409: ("Conflict", "Operation cannot be fulfilled"),
    410: ("Expired", "The resourceVersion for the provided watch is too old."),
    500: ("InternalError", "Internal error occurred: etcdserver: request timed out"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: ("Timeout", "Timeout: request did not complete within the allotted timeout"),
}
JSON_TYPES = ("application/json", "application/merge-patch+json", "application/strategic-merge-patch+json")


class Target(NamedTuple):
    kind: Kind
    namespace: str
    name: str
    subresource: str


class Api:
    def __init__(self, control: Control) -> None:
        self.control, self.cluster = control, control.cluster
        self.operations = Operations(control)
        self.watches: set[Watch] = set()

    def application(self) -> web.Application:
        app = web.Application(client_max_size=3 << 20)  # as etcd: 1.5 MiB, and the server reads 3 MiB
        app.router.add_route("*", "/{path:.*}", self.handle)
        return app

    def break_streams(self) -> None:
        for watch in list(self.watches):
            watch.close()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        seen = Request(request.method, request.path, dict(request.query), ANONYMOUS.name)
        self.control.requests.append(seen)
        fault = next((f for f in self.control.faults if f.strikes(request.method, request.path)), None)
        if self.control.away_as:
            fault = Fault(code=503)
        if fault and not fault.after:
            response = struck(request, fault)
        else:
            response = await self.answered(request, seen)
            if fault:
                response = struck(request, fault)
        seen.status = response.status if request.transport and not request.transport.is_closing() else 0
        return response

    async def answered(self, request: web.Request, seen: Request) -> web.StreamResponse:
        try:
            user = self.cluster.tokens.user(request.headers.get("Authorization"))
            seen.who = user.name
            seen.body = await body_of(request)
            return await self.act(request, user, seen)
        except Refused as refused:
            return web.json_response(refused.body, status=refused.code, headers=refused.headers)

    async def act(self, request: web.Request, user: User, seen: Request) -> web.StreamResponse:
        target = target_of(request.path)
        verb = verb_of(request, target)
        authorize(self.cluster.store, user, Asked(verb, target.kind, *target[3:], *target[1:3]))
        warnings: list[str] = []
        if verb == "watch":
            return await self.watch(request, target, seen)
        answer = await self.operations.carry_out(verb, target, request, seen.body, warnings.append)
        if isinstance(answer, web.StreamResponse):
            return answer
        self.control.warnings += warnings
        headers = [("Warning", f'299 - "{escaped(text)}"') for text in warnings]
        status = 201 if verb == "create" else 200
        return web.Response(
            text=json.dumps(answer), status=status, headers=headers, content_type="application/json"
        )

    async def watch(self, request: web.Request, target: Target, seen: Request) -> web.StreamResponse:
        test = self.operations.test(target, dict(request.query))
        watch = Watch(self.cluster.store, target.kind, target.namespace, test)
        self.watches.add(watch)
        seen.status = 200
        try:
            return await watch.serve(request, self.cluster.pace.bookmark_s)
        finally:
            self.watches.discard(watch)


def target_of(path: str) -> Target:
    found = PATH.fullmatch(path)
    kind = KINDS.get(found["plural"]) if found else None
    if not found or not kind or kind.group != (found["group"] or ""):
        raise Refused(404, "NotFound", NO_RESOURCE)
    namespace, name, subresource = (found[part] or "" for part in ("namespace", "name", "subresource"))
    if (namespace and not kind.namespaced) or (name and kind.namespaced and not namespace):
        raise Refused(404, "NotFound", NO_RESOURCE)
    if subresource and subresource not in kind.subresources:
        raise Refused(404, "NotFound", NO_RESOURCE)
    return Target(kind, namespace, name, subresource)


def verb_of(request: web.Request, target: Target) -> str:
    if request.method == "GET":
        watching = request.query.get("watch") in TRUE
        return "get" if target.name else "watch" if watching else "list"
    if request.method == "DELETE":
        return "delete" if target.name else "deletecollection"
    if request.method not in VERBS:
        text = "the server does not allow this method on the requested resource"
        raise Refused(405, "MethodNotAllowed", text)
    return VERBS[request.method]


async def body_of(request: web.Request) -> Any:
    """Return the JSON body or None; 415 for another type, 400 for invalid JSON."""
    data = await request.read()
    if not data:
        return None
    if request.content_type not in JSON_TYPES:
        raise Refused(415, "UnsupportedMediaType", NOT_JSON)
    try:
        return json.loads(data)
    except ValueError:
        raise bad_request("error decoding: invalid character, the body is not JSON") from None


def struck(request: web.Request, fault: Fault) -> web.Response:
    """Answer as a fault says; code 0 closes the connection."""
    if not fault.code:
        if request.transport:
            request.transport.abort()
        return web.Response(status=500)
    if fault.body is not None or fault.code in TEXTS:
        text = fault.body if fault.body is not None else TEXTS[fault.code]
        kind = "text/html" if fault.code == 502 else "text/plain"
        return web.Response(text=text, status=fault.code, headers=fault.headers, content_type=kind)
    refused = Refused(fault.code, *REASONS.get(fault.code, ("InternalError", "fault")))
    return web.json_response(refused.body, status=fault.code, headers=fault.headers)


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
