import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from workloads.harness.engine.phases import Phases
from workloads.harness.records.case import Case
from workloads.harness.records.grade import counts
from workloads.harness.records.program import Program, Serving, metric_of
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.records.script import OWN, Script
from workloads.harness.script import program
from workloads.harness.script.serving import free_port, reply

ANSWER = """
import http.server, sys, time
time.sleep({start_s})
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response({status})
        self.end_headers()
        self.wfile.write(b"rate 7")
        if self.path == "/die":
            print("no memory on device", flush=True)
            import os; os._exit(3)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
CLIENT = (
    "import sys, urllib.request as u; r = u.build_opener(u.ProxyHandler({}));"
    "print(r.open('http://127.0.0.1:' + sys.argv[1]).read().decode());"
)
PYTHON = (sys.executable, "-I", "-S")  # starts faster without packages
READY = "http://127.0.0.1:{port}/"


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Return a function that measures a client of a server in a temporary folder."""
    monkeypatch.setattr(program, "adopt_orphans", lambda: None)  # for all of this process's life

    def measure(text=ANSWER, client=CLIENT, ready=READY, most_s=20.0, timeout_s=40.0, start_s=0, status=200):
        (tmp_path / "server.py").write_text(
            text.replace("{start_s}", str(start_s)).replace("{status}", str(status))
        )
        serving = Serving((*PYTHON, "server.py", "{port}"), ready, most_s)
        script = Script(
            (*PYTHON, "-c", client, "{port}"),
            folder=str(tmp_path),
            program=Program((metric_of("rates/s: rate ([0-9.]+)"),), serving=serving),
        )
        repeat = Repeat("a-run", "here", Case.of("it", {}, OWN), script=script, timeout_s=timeout_s)
        records = []
        program.measure_program(repeat, Phases(), records.append)
        record = Record.from_json(records[0].to_json())
        port = record.script.program.serving.command[-1] if record.script.program.serving else ""
        assert not port or reply(READY.replace("{port}", port), 1.0).startswith("does not answer")
        return record

    return measure


def test_a_server_is_started_called_and_stopped(measured):
    record = measured()
    run = record.script.program
    assert counts(record) and record.metrics[0].value == 7 and run.serving.exit_code is None
    assert (
        0 < run.serving.ready_s < record.phases_s["server_start"] + 0.2 and "server_stop" in record.phases_s
    )
    assert any("GET" in line for line in run.serving.output)
    assert record.memory.peak_rss_bytes > 1e6


@pytest.mark.parametrize(
    ("given", "verdict", "sentence"),
    [
        (
            {"text": "print('no such model'); raise SystemExit(2)"},
            Verdict.CRASHED,
            "the server ended with code 2 (no such model), before it was ready",
        ),
        ({"status": 503, "most_s": 1.0}, Verdict.TIMEOUT, "/ answers with status 503 ("),
        ({"start_s": 60, "most_s": 0.5}, Verdict.TIMEOUT, "/ does not answer: "),
        (
            {
                "client": CLIENT.replace("sys.argv[1]).", "sys.argv[1] + '/die').")
                + "import time; time.sleep(9)"
            },
            Verdict.CRASHED,
            "the server ended with code 3 (no memory on device), while it was called",
        ),
        ({"client": "raise SystemExit('no')"}, Verdict.CRASHED, "the command ended with code 1 (no)"),
    ],
)
def test_each_bad_end_is_one_sentence(measured, given, verdict, sentence):
    record = measured(**given)
    assert record.verdict is verdict and sentence in record.reasons[0] and len(record.reasons) == 1
    assert record.script.program.serving is not None


def test_a_server_that_is_there_already_is_not_measured(measured):
    port = str(free_port())
    other = subprocess.Popen([*PYTHON, "-m", "http.server", port, "--bind", "127.0.0.1"], stderr=-3)
    try:
        while reply(f"http://127.0.0.1:{port}/", 1.0):
            time.sleep(0.05)
        record = measured(ready=f"http://127.0.0.1:{port}/")
    finally:
        other.kill()
        other.wait()
    assert (
        record.verdict is Verdict.UNSUPPORTED and "answers before the server is started" in record.reasons[0]
    )


def test_a_server_is_gone_when_its_process_is_killed():
    source = (
        "import os, sys, time; from workloads.harness.records.program import Serving;"
        "from workloads.harness.script.serving import _running;"
        "s = Serving(('sh', '-c', 'sleep 99 & sleep 99'), 'http://127.0.0.1:9/', 9.0)\n"
        "with _running(s, os.environ, '.') as server:\n print(server.process.pid, flush=True); time.sleep(99)"
    )
    owner = subprocess.Popen([sys.executable, "-c", source], cwd=program.ROOT, stdout=subprocess.PIPE)
    group = int(owner.stdout.readline())
    assert _lives(group)
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    ends_s = time.monotonic() + 10
    while _lives(group) and time.monotonic() < ends_s:
        time.sleep(0.02)
    assert not _lives(group)


def _lives(group):
    """Return whether a process of a group runs; a zombie does not."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, of_group = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(of_group) == group and state != "Z":
            return True
    return False
