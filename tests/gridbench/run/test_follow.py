import asyncio
import io
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from uuid import uuid4

import pytest
from prefect.client.orchestration import PrefectClient
from prefect.states import Completed, Failed, Running
from rich.console import Console

from gridbench.run import follow
from gridbench.run.follow import cell_text, progress_text
from infra.local.errors import LocalStackError

CELL = "local-cpu/matmul/n=500/fp32"


def cell(state, name=CELL):
    state.timestamp = datetime(2026, 11, 26, tzinfo=UTC)
    return SimpleNamespace(name=name, state=state)


@pytest.mark.parametrize(
    ("state", "words", "others"),
    [
        (Completed(name="Ok", message="1.23 ms ± 0.8 %, 3 repeats"), ["1.23 ms ± 0.8 %"], ["Ok"]),
        (
            Completed(name="Noisy", message="1.23 ms ± 4 %, 3 repeats; others took 2 CPUs"),
            ["1.23 ms ± 4 %", "(noisy)"],
            ["others"],
        ),
        (Failed(name="OutOfMemory", message="tried 6 GB"), ["OutOfMemory", "tried 6 GB"], ["±"]),
    ],
)
def test_a_finished_cell_has_its_time_before_its_verdict(state, words, others):
    text = cell_text(cell(state))
    places = [text.index(word) for word in words]
    assert text.startswith(CELL) and places == sorted(places)
    assert not any(word in text for word in others)


def test_the_remaining_time_follows_the_plan_and_then_the_finished_cells():
    waiting, done = cell(Running()), cell(Completed(name="Ok", message="1 s"))
    assert "about 90.0 s left" in progress_text([waiting] * 10, 10.0, 100.0)
    assert "5 of 10 cells, 60.0 s elapsed, about 60.0 s left" in progress_text(
        [done] * 5 + [waiting] * 5, 60.0, 1.0
    )
    assert "left" not in progress_text([done], 60.0, 100.0)
    assert "left" not in progress_text([waiting] * 10, 60.0, None)


def test_the_remaining_time_counts_the_repeats_before_the_last_and_the_slowest_lane():
    waiting, done = cell(Running()), cell(Completed(name="Ok", message="1 s"))
    assert "about 20.0 s left" in progress_text([done] + [waiting] * 4, 105.0, 1.0, repeats=5)
    slower = cell(Running(), "other/matmul/n=500/fp32")
    assert "about 95.0 s left" in progress_text([done, waiting, slower], 105.0, 200.0, repeats=5)


class Broken(BaseHTTPRequestHandler):
    """A Prefect server with a broken or locked database."""

    is_locked = False

    def do_GET(self):
        if self.is_locked and "health" not in self.path and "csrf" not in self.path:
            time.sleep(5)
        self.send_response(404 if "csrf" in self.path else 200 if "health" in self.path else 500)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_POST = do_GET

    def log_message(self, *words):
        pass


@pytest.mark.parametrize("is_locked", [False, True], ids=["errors", "hangs"])
async def test_a_server_that_fails_for_a_minute_ends_the_command(monkeypatch, is_locked):
    monkeypatch.setattr(Broken, "is_locked", is_locked)
    monkeypatch.setattr(follow, "READ_S", 0.3)
    monkeypatch.setattr(follow, "FAILING_S", 0.5)
    monkeypatch.setattr(follow, "POLL_S", 0.05)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Broken)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/api"
    out = Console(file=io.StringIO(), width=200)
    async with PrefectClient(url) as client:
        with pytest.raises(LocalStackError, match=f"{url}/? has failed"):
            await follow._watch(client, [SimpleNamespace(id=uuid4())], out, lambda: None, None, 1)
    server.shutdown()
    server.server_close()
    assert "does not answer" in out.file.getvalue()


async def test_a_server_that_is_not_there_is_waited_for(monkeypatch):
    monkeypatch.setattr(follow, "FAILING_S", 0.1)
    monkeypatch.setattr(follow, "POLL_S", 0.05)
    async with PrefectClient("http://127.0.0.1:9/api") as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await follow._watch(
                    client, [SimpleNamespace(id=uuid4())], Console(file=io.StringIO()), lambda: None, None, 1
                )
