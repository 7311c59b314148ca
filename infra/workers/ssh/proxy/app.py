"""The proxy of one flow run, an ASGI application."""

import asyncio
import base64
import hmac
import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import quote
from uuid import UUID

import httpx
import prefect
from prefect.client.base import ServerType
from prefect.client.orchestration import PrefectClient
from prefect.context import SettingsContext, get_settings_context
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from ..command_line import ROOT
from . import bodies
from .callers import admit
from .events import ARTIFACT, OwnThings, give_events, shake_hands, take_events, until_closed
from .limits import BODY_BYTES, TOO_LARGE, TOO_LATE, Allowance, Allowances, Refusal, spend

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

DONE, UNKNOWN, AWAY, NO_CSRF, WRONG = 204, 401, 503, 422, 400
ANSWER_S = 50  # for the server's answer: the box's client gives up after 60
BODY_S = 60  # for the body of a request
SLOWLY_S = 1.0  # between a flood's requests on each connection
NO_ANSWER = "the Prefect API does not answer"
PATH_SHOWN = 200  # characters
LEASE = re.compile(r"/v2/concurrency_limits/leases/([0-9a-f-]{36})/renew")
CODE = re.compile(r"/flow_runs/([0-9a-f-]{36})/input/code-[0-9a-f]{16}(-[0-9]{1,4})?")
Written = Callable[[UUID, bytes, Allowances], Any]
# These fields name other boxes of the same hardware, and other runs.
OF_RUN: dict[str, Any] = {"job_variables": {}, "infrastructure_pid": None, "parent_task_run_id": None}
OF_DEPLOYMENT: dict[str, Any] = {"job_variables": {}, "parameters": {}}
OF_POOL: dict[str, Any] = {"base_job_template": {}}


class Rule(NamedTuple):
    """An allowed request.

    `hidden` are fields of the answer that the box must not see, with replacements; `open` needs no token.
    """

    body: Written | None = None
    hidden: Mapping[str, Any] | None = None
    open: bool = False


def rules_of(run: "FlowRun") -> dict[tuple[str, str], Rule]:
    own = f"/flow_runs/{run.id}"
    return {
        ("GET", "/health"): Rule(open=True),
        ("GET", "/csrf-token"): Rule(open=True),
        ("GET", "/admin/storage"): Rule(),
        ("GET", "/admin/version"): Rule(),
        ("GET", own): Rule(hidden=OF_RUN),
        ("GET", f"{own}/input/repeats"): Rule(),  # the order for it
        ("PATCH", own): Rule(bodies.update_body),
        ("POST", f"{own}/set_state"): Rule(bodies.state_body),
        ("POST", "/logs/"): Rule(bodies.lines_body),
        ("POST", "/artifacts/"): Rule(bodies.artifact_body),
        ("GET", f"/flows/{run.flow_id}"): Rule(),
        ("GET", f"/deployments/{run.deployment_id}"): Rule(hidden=OF_DEPLOYMENT),
        ("GET", f"/work_queues/{run.work_queue_id}"): Rule(),
        ("GET", f"/work_pools/{quote(str(run.work_pool_name))}"): Rule(hidden=OF_POOL),
    }


@dataclass(eq=False)
class JobProxy:
    """Forwards one flow run's requests with the worker's credentials; refuses and logs others."""

    run: "FlowRun"
    box: str
    client: PrefectClient
    log: "logging.Logger | logging.LoggerAdapter[Any]"
    tokens: set[str] = field(default_factory=set)
    limits: Allowances = field(default_factory=Allowances)
    _told: Allowance = field(default_factory=lambda: Allowance(20, 1 / 60))
    _unlogged: int = 0

    def __post_init__(self) -> None:
        self._rules = rules_of(self.run)
        self._own = OwnThings(self.client, self.run.id)
        # The box's own client retries: retries here as well would make it wait and send everything twice.
        with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}):  # 30 ms of CPU, so not for each request
            self._once = get_settings_context()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._socket(WebSocket(scope, receive, send))
            return
        request = Request(scope, receive)
        try:
            answer = await self._answer(request)
        except ClientDisconnect:
            return
        except Refusal as refusal:
            answer = await self._refuse(request.method, scope, refusal)
        except (httpx.HTTPError, OSError):
            answer = JSONResponse({"detail": NO_ANSWER}, AWAY)
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        has_token = self._knows(_credentials(request))
        if has_token:
            admit(request.scope)
        spend(self.limits.requests if has_token else self.limits.strangers, 1, "requests")
        path = path_of(request.scope)
        if not has_token and not self._rules.get((request.method, path), Rule()).open:
            raise Refusal("the request does not have the token of this flow run", UNKNOWN)
        rule = await self._rule(request.method, path)
        if fixed := self._fixed(request.method, path):
            return fixed
        body = None
        if rule.body:
            body = rule.body(self.run.id, await self._content(request), self.limits)
            if body == {}:  # the box is not allowed to change any of these fields
                return Response(status_code=DONE)
            await self._check_tasks(body)
        answer = await self._ask(request.method, path, body, rule.hidden)
        if path == "/artifacts/" and answer.status_code < WRONG:
            self._own.add(f"{ARTIFACT}{json.loads(bytes(answer.body))['id']}")
        return answer

    async def _check_tasks(self, body: Any) -> None:
        for task_id in bodies.tasks_in(body):
            if not self._own.has(task_id):
                spend(self.limits.events, 1, "task runs")
                await self._own.check_task(task_id)

    def _fixed(self, method: str, path: str) -> Response | None:
        if path == "/csrf-token":  # the box's requests come from no browser
            return JSONResponse({"detail": "CSRF protection is disabled."}, NO_CSRF)
        if path == "/admin/storage":
            return JSONResponse({"default_result_storage_block_id": None})
        if path == "/admin/version" and self.client.server_type is ServerType.CLOUD:  # it has no such page
            return JSONResponse(prefect.__version__)
        return None

    async def _rule(self, method: str, path: str) -> Rule:
        if rule := self._rules.get((method, path)):
            return rule
        if method == "GET" and is_code_of(self.run.id, path):
            return Rule()
        if method == "POST" and (lease := LEASE.fullmatch(path)):
            state = (await self.client.read_flow_run(self.run.id)).state
            held = state.state_details.deployment_concurrency_lease_id if state else None
            if str(held) == lease[1]:  # the run's slot in its deployment's concurrency limit
                return Rule(bodies.lease_body)
        raise Refusal("a box can access only its own flow run")

    async def _content(self, request: Request) -> bytes:
        content = b""
        try:
            async with asyncio.timeout(BODY_S):
                async for chunk in request.stream():
                    spend(self.limits.sent_bytes, len(chunk), "bytes")
                    content += chunk
                    if len(content) > BODY_BYTES:
                        raise Refusal(f"the body has more than {BODY_BYTES} bytes", TOO_LARGE)
        except TimeoutError:
            raise Refusal(f"the body did not come within {BODY_S} s", TOO_LATE) from None
        return content

    async def _ask(self, method: str, path: str, body: Any, hidden: Mapping[str, Any] | None) -> Response:
        """Send a new request: no header and no byte of the box's is forwarded."""
        try:
            with SettingsContext(profile=self._once.profile, settings=self._once.settings):
                async with asyncio.timeout(ANSWER_S):
                    told = {} if body is None else {"json": body}
                    answer = await self.client.request(cast(Any, method), cast(Any, path), **told)
        except httpx.HTTPStatusError as error:
            answer = error.response
        content = answer.content
        if hidden and answer.is_success:
            content = json.dumps({**answer.json(), **hidden}).encode()
        kept = {key: answer.headers[key] for key in ("content-type", "retry-after") if key in answer.headers}
        return Response(content, answer.status_code, kept)

    async def _socket(self, socket: WebSocket) -> None:
        try:
            path = path_of(socket.scope)
            if path not in ("/events/in", "/events/out"):
                raise Refusal("a box can access only its own flow run")
            await shake_hands(socket, self._knows)
            admit(socket.scope)
            spend(self.limits.requests, 1, "requests")
            if path == "/events/in":
                refuse = partial(self._refuse, "EVENT", socket.scope)
                serve = take_events(socket, self._own, self.limits, refuse)
            else:
                serve = give_events(socket, self.run.id)
            await until_closed(serve, socket)
        except WebSocketDisconnect:
            return
        except Refusal as refusal:
            await self._refuse("SOCKET", socket.scope, refusal)
            if socket.application_state.name != "DISCONNECTED":
                await socket.close(1008)

    async def _refuse(self, method: str, scope: Scope, refusal: Refusal) -> Response:
        """Answer a flood slowly, and log it in part."""
        shown = ascii((scope.get("raw_path") or b"").decode("latin-1")[:PATH_SHOWN])
        if self._told.take():
            self._unlogged += 1
        else:
            more = f" ({self._unlogged} more were not logged)" if self._unlogged else ""
            words = "Box %s, flow run %s: refused %s %s: %s.%s"
            self.log.warning(words, self.box, self.run.id, method, shown, refusal, more)
            self._unlogged = 0
        if refusal.after_s:
            await asyncio.sleep(SLOWLY_S)
        headers = {"retry-after": str(refusal.after_s)} if refusal.after_s else {}
        return JSONResponse({"detail": f"{refusal}."}, refusal.status, headers | {"connection": "close"})

    def _knows(self, token: str) -> bool:
        given = token.encode(errors="surrogatepass")  # a box can send text that no encoding accepts
        return any([hmac.compare_digest(given, known.encode()) for known in self.tokens])


def is_code_of(run_id: UUID, path: str) -> bool:
    found = CODE.fullmatch(path)
    return found is not None and found[1] == str(run_id)


def path_of(scope: Scope) -> str:
    """Return the path below the API's root, neither decoded nor resolved; `Refusal` elsewhere."""
    path = (scope.get("raw_path") or b"").decode("latin-1")
    if not path.startswith(f"{ROOT}/"):
        raise Refusal("a box can access only its own flow run")
    return path.removeprefix(ROOT)


def _credentials(request: Request) -> str:
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    try:
        return base64.b64decode(encoded).decode() if scheme.lower() == "basic" else ""
    except ValueError:
        return ""
