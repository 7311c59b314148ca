"""A small HTTP server in the place of the Prefect API, which takes artifacts or refuses them as a test wants."""

import json
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import uuid4

import pytest
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from tasks.delivery import unsent_records


class Api(ThreadingHTTPServer):
    """Answers each request for an artifact with the next status of `statuses`, 201 where none is left.

    `limit` is the length of the longest body that it takes; more is answered with 413. `go_on` is what it waits for
    before it answers at all.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.statuses, self.taken, self.limit = deque(), [], 10**9
        self.go_on = threading.Event()
        self.go_on.set()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/api"


class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        """No CSRF tokens, as of a server that wants none."""
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.go_on.wait(30)
        status = self.server.statuses.popleft() if self.server.statuses else 201
        status = 413 if len(body) > self.server.limit else status
        if status == 201:
            self.server.taken.append(json.loads(body))
        answer = json.dumps({"id": str(uuid4()), **json.loads(body)} if status == 201 else {}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *words):
        pass


@pytest.fixture
def api():
    server = Api()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    with temporary_settings({PREFECT_API_URL: server.url, PREFECT_CLIENT_MAX_RETRIES: 0}):
        yield server
    server.go_on.set()
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def box(tmp_path, monkeypatch):
    """The folder of this box for what could not be sent."""
    monkeypatch.setattr(unsent_records, "FOLDER", tmp_path / "unsent")
    return tmp_path / "unsent"


@pytest.fixture
def repeats(plan):
    return plan.repeats_on(plan.hardware[0])
