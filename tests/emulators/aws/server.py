"""AWS on a local port: moto's server in a thread of this process, with patches and faults.

The patches change moto's internals, and a test's faults take effect at once, so it runs in this process.
"""

import contextlib
import gzip
import io
import json
import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import botocore
from moto.backends import get_backend
from moto.core.base_backend import BackendDict
from moto.core.model_instances import reset_model_data
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

from . import batch, cloudformation
from .control import CallFault, control

SCOPE = re.compile(r"Credential=[^/]+/\d+/[^/]+/([^/]+)/")
# [doc] the page CommonErrors of any service's API reference; [thread] nextflow-io/nextflow #1741: of AWS Batch
EXPIRED = (403, "ExpiredTokenException")
JSON_ERRORS = {
    "throttled": (429, "TooManyRequestsException"),
    "server_error": (500, "ServerException"),
    "expired": EXPIRED,
}
# [doc] each service's own name of "too many requests"
XML_ERRORS = {"throttled": (503, "Throttling"), "server_error": (500, "InternalFailure"), "expired": EXPIRED}
# [doc] the same pages
WORDS = {"expired": "The security token included in the request is expired"}


def service_of(environ: dict[str, Any]) -> str:
    """Return the service that the request's signature names, S3 by default like moto."""
    found = SCOPE.search(environ.get("HTTP_AUTHORIZATION", ""))
    return found.group(1) if found else "s3"


@cache
def batch_operations() -> dict[str, str]:
    folder = Path(botocore.__file__).parent / "data/batch/2016-08-10"
    packed = folder / "service-2.json.gz"
    text = (
        gzip.decompress(packed.read_bytes()) if packed.exists() else (folder / "service-2.json").read_bytes()
    )
    operations = json.loads(text)["operations"]
    return {entry["http"]["requestUri"]: name for name, entry in operations.items()}


def take_body(environ: dict[str, Any]) -> bytes:
    """Return the request's body and leave it readable."""
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def operation_of(service: str, environ: dict[str, Any], body: bytes) -> str:
    """Return the operation, such as DescribeJobs; for REST services the HTTP method."""
    path, target = environ.get("PATH_INFO", ""), environ.get("HTTP_X_AMZ_TARGET", "")
    if service == "batch":
        return batch_operations().get(path, environ["REQUEST_METHOD"])
    if target:
        return target.split(".")[-1]
    if environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded"):
        return parse_qs(body.decode(errors="replace")).get("Action", [environ["REQUEST_METHOD"]])[0]
    return environ["REQUEST_METHOD"]


def gate(application: Callable) -> Callable:
    def serve(environ: dict[str, Any], start: Callable) -> Iterable[bytes]:
        if environ.get("PATH_INFO", "").startswith("/moto-api"):
            return application(environ, start)
        service = service_of(environ)
        body = b"" if service == "s3" else take_body(environ)
        operation = operation_of(service, environ, body)
        control.calls[operation] += 1
        if service == "batch":
            control.batch_calls.append((operation, json.loads(body or b"{}")))
        struck = [fault for fault in control.call_faults if fault.strikes(service, operation)]
        if not struck:
            return application(environ, start)
        if struck[0].done:
            list(application(environ, lambda *answer: lambda data: None))
        return failure(struck[0], environ, start)

    return serve


def failure(fault: CallFault, environ: dict[str, Any], start: Callable) -> Iterable[bytes]:
    if fault.answer == "hang_up":
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        start("500 Lost", [])
        return [b""]
    service, words = service_of(environ), WORDS.get(fault.answer, "Rate exceeded")
    if service == "batch" or "HTTP_X_AMZ_TARGET" in environ:
        status, code = JSON_ERRORS[fault.answer]
        if service != "batch" and fault.answer == "throttled":
            status, code = 400, "ThrottlingException"
        text = json.dumps({"__type": code, "message": words})
        headers = [("Content-Type", "application/json"), ("x-amzn-ErrorType", code)]
    else:
        status, code = XML_ERRORS[fault.answer]
        error = f"<Error><Code>{code}</Code><Message>{words}</Message></Error>"
        text = error if service == "s3" else f"<ErrorResponse>{error}</ErrorResponse>"
        headers = [("Content-Type", "text/xml")]
    start(f"{status} Fault", headers)
    return [text.encode()]


class Quiet(WSGIRequestHandler):
    """A handler that logs nothing: a poller makes thousands of calls."""

    def log_request(self, *arguments: Any) -> None:
        pass


@contextlib.contextmanager
def aws_server() -> Iterator[str]:
    batch.install()
    cloudformation.install()
    application = gate(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Quiet)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        empty_account()
        server.shutdown()
        server.server_close()


def empty_account() -> None:
    control.reset()
    jobs = [
        job
        for regions in get_backend("batch").values()
        for backend in regions.values()
        for job in list(backend._jobs.values())
        if job.is_alive()
    ]
    for job in jobs:
        job.abandon()
    for job in jobs:
        job.join(60)
    BackendDict.reset()
    reset_model_data()
