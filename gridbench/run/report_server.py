"""Serve the results folder to local browsers, because pages of the UI cannot link to files.

Every program and every page of a browser can ask a port of 127.0.0.1. The server answers only requests to its
own address, which a page with a rebound name (DNS rebinding) does not make. A run's files need the run's key
in their path; all other files need the stack's password.
"""

import base64
import hmac
import http.server
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

from infra.local.ports import free_port, port_taken
from tasks.store.report_keys import REPORTS_SECRET, key_of_run, secret_of
from tasks.store.store import REPORTS_FOLDER, REPORTS_URL

HOST = "127.0.0.1"
PORT = 4280  # a fixed port keeps old links working


class ReportHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files without logging: a run's to its link, all to the password."""

    def __init__(self, *arguments: Any, auth: str, directory: str) -> None:
        self._auth = auth
        super().__init__(*arguments, directory=directory)

    def send_head(self) -> BinaryIO | None:
        _, port, *_ = self.connection.getsockname()
        if self.headers.get("Host") not in (f"{HOST}:{port}", f"localhost:{port}"):
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, f"Ask {HOST}:{port}")
            return None
        if self._has_password():
            return super().send_head()
        file = self._of_a_run()
        if file is None:
            self.send_response(HTTPStatus.UNAUTHORIZED)
            self.send_header("WWW-Authenticate", 'Basic realm="gridbench"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        self.path = file
        return super().send_head()

    def end_headers(self) -> None:
        """Hide a page's address, which has the key, from other sites."""
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def _has_password(self) -> bool:
        scheme, _, encoded = self.headers.get("Authorization", "").partition(" ")
        try:
            shown = base64.b64decode(encoded, validate=True)
        except ValueError:
            return False
        return scheme.lower() == "basic" and hmac.compare_digest(shown, self._auth.encode())

    def _of_a_run(self) -> str | None:
        """Return a file's path below the results folder if the request has its run's key."""
        key, _, below = urlsplit(self.path).path.lstrip("/").partition("/")
        run = unquote(below.partition("/")[0])
        right = key_of_run(secret_of(self._auth), run)
        if not run or not hmac.compare_digest(key.encode(errors="replace"), right.encode()):
            return None
        results, file = Path(self.directory).resolve(), Path(self.translate_path(f"/{below}")).resolve()
        is_of_run = file.is_relative_to(results / run) and (results / run).parent == results
        return f"/{below}" if is_of_run and file.is_file() else None

    def log_message(self, format: str, *args: object) -> None: ...


@contextmanager
def reports_served(results: Path, auth: str) -> Iterator[None]:
    """Serve `results` on the loopback address; flow runs started meanwhile link their reports there.

    `auth` is the stack's auth string, USER:PASSWORD.
    """
    port = free_port(HOST) if port_taken(HOST, PORT) else PORT
    handler = partial(ReportHandler, auth=auth, directory=str(results))
    with http.server.ThreadingHTTPServer((HOST, port), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ours = {
            REPORTS_URL: f"http://{HOST}:{port}",
            REPORTS_FOLDER: str(results.absolute()),
            REPORTS_SECRET: secret_of(auth),
        }
        os.environ.update(ours)
        try:
            yield
        finally:
            server.shutdown()
            for name in ours:
                os.environ.pop(name, None)
