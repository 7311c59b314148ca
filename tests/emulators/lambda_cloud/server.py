"""Lambda's cloud API on a local port: a thread of this process with its own account."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from werkzeug.exceptions import HTTPException
from werkzeug.routing import Map, Rule
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.wrappers import Request, Response

from . import checks, reasons
from .account import Account, Refused, error_of
from .control import Call, CallFault, Control
from .machines import Greeters, Machines

ROUTES = Map(
    [
        Rule("/api/v1/instance-types", methods=["GET"], endpoint="listInstanceTypes"),
        Rule("/api/v1/instances", methods=["GET"], endpoint="listInstances"),
        Rule("/api/v1/instances/<one>", methods=["GET"], endpoint="getInstance"),
        Rule("/api/v1/instance-operations/launch", methods=["POST"], endpoint="launchInstance"),
        Rule("/api/v1/instance-operations/terminate", methods=["POST"], endpoint="terminateInstance"),
        Rule("/api/v1/ssh-keys", methods=["GET"], endpoint="listSSHKeys"),
        Rule("/api/v1/ssh-keys", methods=["POST"], endpoint="addSSHKey"),
        Rule("/api/v1/ssh-keys/<one>", methods=["DELETE"], endpoint="deleteSSHKey"),
    ],
    strict_slashes=True,
)
# [thread] tests of a public client of Lambda's have 403 with "error code: 1015"; [doc] developers.cloudflare.com,
# "Cloudflare 1xxx errors": 1010 by the browser's signature, and pages with `cf-mitigated: challenge`
EDGE = {
    "blocked": (403, "text/plain", "error code: 1010"),
    "challenged": (403, "text/html", "<html><title>Just a moment...</title><p>Ray ID: 8f</p></html>"),
    "nowhere": (404, "text/html", "<html><h1>404 Not Found</h1></html>"),
}
FORBIDDEN = {answer.code: answer for answer in (reasons.ACCOUNT_INACTIVE, reasons.INVALID_ADDRESS)}


class Standin(NamedTuple):
    url: str
    control: Control
    account: Account
    machines: Any


class Api:
    def __init__(self, account: Account) -> None:
        self.account, self.control = account, account.control
        self.last: dict[str, float] = {}

    def __call__(self, environ: dict[str, Any], start: Callable) -> Iterable[bytes]:
        request = Request(environ)
        request.get_data()
        try:
            operation, arguments = ROUTES.bind_to_environ(environ).match()
        except HTTPException as error:
            return error.get_response(environ)(environ, start)
        with self.control.lock:
            fault = next((f for f in self.control.call_faults if f.strikes(operation)), None)
            answer = None if fault and not fault.done else self.answer(operation, request, **arguments)
            if fault:
                answer = failure(fault)
            self.control.calls.append(self.logged(operation, request, answer))
        if answer is None:
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            start("500 Lost", [])
            return [b""]
        return answer(environ, start)

    def logged(self, operation: str, request: Request, answer: Response | None) -> Call:
        body = request.get_json(silent=True) if request.method == "POST" else None
        return Call(
            operation, body, answer.status_code if answer else 0, request.headers.get("User-Agent", "")
        )

    def answer(self, operation: str, request: Request, one: str = "") -> Response:
        try:
            self.check_pace(operation)
            self.check_key(request, operation)
            return reply(200, {"data": self.act(operation, one, body_of(request))})
        except Refused as refused:
            if refused.status == 429:
                return too_many(self.control.retry_after)
            return reply(refused.status, {"error": refused.error})

    def act(self, operation: str, one: str, body: Any) -> Any:
        account = self.account
        match operation:
            case "listInstanceTypes":
                return account.offers()
            case "listInstances":
                return [i.shown() for i in account.instances.values() if i.listed]
            case "getInstance":
                return account.find(one).shown()
            case "launchInstance":
                request = checks.launch(body, account.key_names())
                names = {key["name"]: key["public_key"] for key in account.keys.values()}
                return account.launch(request, names[request["ssh_key_names"][0]])
            case "terminateInstance":
                return account.terminate(checks.instance_ids(body))
            case "listSSHKeys":
                return list(account.keys.values())
            case "addSSHKey":
                return account.add_key(**checks.ssh_key(body))
        return account.remove_key(one)

    def check_pace(self, operation: str) -> None:
        now = time.monotonic()
        limits = [("call", self.control.call_least_s)]
        if operation == "launchInstance":
            limits.append(("launch", self.control.launch_least_s))
        for name, least_s in limits:
            if now - self.last.get(name, float("-inf")) < least_s:
                raise Refused(reasons.TOO_MANY)
            self.last[name] = now

    def check_key(self, request: Request, operation: str) -> None:
        given = request.authorization
        key = given and (given.token if given.type == "bearer" else given.username)
        if key != self.control.key:
            raise Refused(reasons.INVALID_KEY)
        code = self.control.account
        if code == "global/account-inactive" or (code in FORBIDDEN and operation == "launchInstance"):
            raise Refused(FORBIDDEN[code])


def body_of(request: Request) -> Any:
    if request.method != "POST":
        return None
    checks.demand(request.mimetype == "application/json", "The body is not JSON.")
    try:
        return json.loads(request.get_data())
    except ValueError:
        return checks.demand(False, "The body is not JSON.")


def reply(status: int, data: Any) -> Response:
    return Response(json.dumps(data), status, content_type="application/json")


def too_many(retry_after: str | None) -> Response:
    headers = {"Retry-After": retry_after} if retry_after else {}
    return Response(reasons.TOO_MANY.message, reasons.TOO_MANY.status, headers, content_type="text/plain")


def failure(fault: CallFault) -> Response | None:
    if fault.answer == "hang_up":
        return None
    if fault.answer in EDGE:
        status, kind, text = EDGE[fault.answer]
        return Response(text, status, content_type=kind)
    if fault.answer == "throttled":
        return too_many(fault.retry_after)
    if fault.answer == "empty":
        return reply(200, {})
    known = reasons.PROVIDER if fault.answer == "provider" else reasons.INTERNAL
    return reply(known.status, {"error": error_of(known)})


class Quiet(WSGIRequestHandler):
    def log_request(self, *arguments: Any) -> None:
        pass


@contextlib.contextmanager
def lambda_cloud(control: Control | None = None, machines: Machines | None = None) -> Iterator[Standin]:
    """Yield an empty account; `url` is the value for LAMBDA_API_URL."""
    control, machines = control or Control(), machines or Greeters()
    account = Account(control, machines)
    server = make_server("127.0.0.1", 0, Api(account), threaded=True, request_handler=Quiet)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield Standin(f"http://127.0.0.1:{server.server_port}/api/v1", control, account, machines)
    finally:
        account.close()
        server.shutdown()
        server.server_close()
