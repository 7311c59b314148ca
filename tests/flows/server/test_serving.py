import asyncio
import json
import os
import shlex
import sys

import pytest

from tasks.store.store import Store, runs
from tests.exit_codes import assert_measured
from tests.workloads.serving.scripted import ROOT

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a real Prefect server and its workers answer late where the machine is busy"
)
SCRIPT = '{"service_s": 0.05}'  # one worker that takes 50 ms for each request: fewer than 20 a second


async def test_a_server_is_searched_for_its_rate_by_one_command(bench, tmp_path):
    (tmp_path / "README.md").write_text("a server without code")
    server = f"{sys.executable} -m tests.workloads.serving.scripted {shlex.quote(SCRIPT)} {{port}}"
    load = ("output_tokens=6", "seconds=4", "search_seconds=14", "warm_up_seconds=0.5")
    words = (
        "--serve",
        server,
        "--slo",
        "ttft_p90_ms=400",
        *(word for text in load for word in ("--load", text)),
    )
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from gridbench.main import main; main()", "command", *words),
        *("--env", f"PYTHONPATH={ROOT}", "--name", "served", "--on", "local-cpu", "--repeats", "1"),
        *("--timeout-s", "90", "--results", str(bench.results)),
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "300"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(started.communicate(), 500)
    said = out.decode()
    assert_measured(started.returncode, said)
    name = next(run for run in runs(bench.results) if run.split("-")[2] == "served")
    store = Store.open(bench.results, name)
    (record,) = store.records()[0]
    run = record.script.program
    assert (
        record.cell.id == "local-cpu/served/own"
        and run.serving.ready_s
        and record.phases_s["server_start"] > 0
    )
    assert 1 < run.promised.requests_per_s < 20
    assert run.promised.output_tokens_per_s == pytest.approx(6 * run.promised.requests_per_s)
    if started.returncode == 0:  # else the machine was busy, and the record does not count
        assert "At the promise: local-cpu, " in said
        assert "Throughput against latency" in (store.folder / "report.html").read_text()
    published = json.loads((store.folder / "benchmark_results.json").read_text())
    assert "start of the server" in json.dumps(published["findings"]["bills"])
