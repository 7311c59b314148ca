"""An HTTP server in place of the Prefect API, which accepts or refuses artifacts."""

import json
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import uuid4

import pytest
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from tasks.delivery import unsent_records


class Api(ThreadingHTTPServer):
    """Answer each request for an artifact with the next of `statuses`, then 201.

    Bodies longer than `limit` get 413. `go_on` delays every answer.
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
    monkeypatch.setattr(unsent_records, "FOLDER", tmp_path / "unsent")
    return tmp_path / "unsent"


@pytest.fixture
def repeats(plan):
    return plan.repeats_on(plan.hardware[0])
