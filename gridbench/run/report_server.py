"""Serve the results folder to local browsers, because pages of the UI cannot link to files."""

import http.server
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from infra.local.ports import free_port, port_taken
from tasks.store.store import REPORTS_FOLDER, REPORTS_URL

HOST = "127.0.0.1"
PORT = 4280  # always the same if it is free, so that old links keep working


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without logging."""

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def reports_served(results: Path) -> Iterator[None]:
    """Serve `results` on the loopback address; flow runs started meanwhile link their reports there."""
    port = free_port(HOST) if port_taken(HOST, PORT) else PORT
    handler = partial(Quiet, directory=str(results))
    with http.server.ThreadingHTTPServer((HOST, port), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ours = {REPORTS_URL: f"http://{HOST}:{port}", REPORTS_FOLDER: str(results.absolute())}
        os.environ.update(ours)
        try:
            yield
        finally:
            server.shutdown()
            for name in ours:
                del os.environ[name]
