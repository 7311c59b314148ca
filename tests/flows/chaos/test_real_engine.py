"""A real engine, llama.cpp with a small model of random weights: its own counts, and a rate at a promised latency."""

import asyncio
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tasks.store.store import Store, runs
from tasks.travel.environment import environment_for
from tests.exit_codes import assert_measured
from workloads.harness.script.serving import free_port, reply
from workloads.serving.client import Server
from workloads.serving.load import Lengths, drawn_requests
from workloads.serving.play import Play, closed_loop

pytestmark = [
    pytest.mark.alone,
    pytest.mark.timeout(1200),
    pytest.mark.flaky(
        reruns=2, reason="the engine and a Prefect server answer late where the machine is busy"
    ),
]
ROOT = Path(__file__).parents[3]
ENGINE = Path(__file__).parents[1] / "engine"
TOKENS = 16


@pytest.fixture
def engine(tmp_path):
    """The address of a running engine; its packages are installed once on a machine."""
    python = environment_for(ENGINE, "requirements.txt", Path(sys.executable), print).python
    address = f"http://127.0.0.1:{free_port()}"
    words = [str(python), str(ENGINE / "serve.py"), address.rpartition(":")[2]]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(words, cwd=tmp_path, stdout=log, stderr=subprocess.STDOUT)
    try:
        until = time.monotonic() + 120
        while why := reply(f"{address}/health", 2):
            assert process.poll() is None and time.monotonic() < until, (why, (tmp_path / "log").read_text())
            time.sleep(0.1)
        yield address
    finally:
        process.kill()
        process.wait()


def totals(address):
    """The engine's own counts since its start."""
    text = urllib.request.urlopen(f"{address}/metrics").read().decode()
    return {name: float(value) for name, value in re.findall(r"^llamacpp:(\w+) (\S+)$", text, re.M)}


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_tokens_and_times_are_those_that_the_engine_counts(engine, path):
    requests = drawn_requests(Lengths(5, 15), Lengths(TOKENS, TOKENS), 1)
    server = Server(engine + path, {"ignore_eos": True})
    play = Play(most_s=5.0, warm_up_s=0.0, patience_s=5.0)
    answers = asyncio.run(closed_loop(server, 1, itertools.islice(requests, 1000), play))
    counted = totals(engine)
    assert len(answers) > 2 and not any(answer.error for answer in answers)
    assert {answer.tokens for answer in answers} == {TOKENS}
    assert sum(answer.tokens for answer in answers) == counted["tokens_predicted_total"]
    assert sum(answer.prompt_tokens for answer in answers) == counted["prompt_tokens_total"]
    prompt_s = counted["prompt_seconds_total"] / len(answers)
    token_s = counted["tokens_predicted_seconds_total"] / len(answers) / (TOKENS - 1)
    assert statistics.fmean(a.ttft_s for a in answers) == pytest.approx(prompt_s, rel=0.05, abs=0.01)
    assert statistics.fmean(a.tpot_s for a in answers) == pytest.approx(token_s, rel=0.03, abs=1e-3)


async def test_a_real_engine_is_served_at_a_promise_by_one_command(bench):
    load = (f"output_tokens={TOKENS}", "prompt_tokens=5-15", "seconds=6", "search_seconds=40")
    words = (
        *("command", "--serve", "python serve.py {port}", "--packages", "requirements.txt"),
        *("--slo", "ttft_p90_ms=1000", "--slo", "tpot_p90_ms=100", "--load", 'body={"ignore_eos": true}'),
        *(word for text in load for word in ("--load", text)),
        *("--name", "llama", "--on", "local-cpu", "--repeats", "1", "--timeout-s", "200"),
    )
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from gridbench.main import main; main()", *words),
        *("--results", str(bench.results)),
        cwd=ENGINE,
        env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "300"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(started.communicate(), 900)
    said = out.decode()
    assert_measured(started.returncode, said)
    name = next(run for run in runs(bench.results) if run.split("-")[2] == "llama")
    store = Store.open(bench.results, name)
    (record,) = store.records()[0]
    run, promised = record.script.program, record.script.program.promised
    assert run.serving.ready_s and record.phases_s["server_start"] >= run.serving.ready_s
    assert promised.requests_per_s > 0 and promised.low <= promised.requests_per_s
    assert promised.output_tokens_per_s == pytest.approx(TOKENS * promised.requests_per_s)
    (best,) = [point for point in promised.points if point.rate == promised.requests_per_s]
    assert all(0 < value < limit for value, limit in zip(best.seconds, promised.limits_s, strict=True))
    page = (store.folder / "report.html").read_text()
    published = json.loads((store.folder / "benchmark_results.json").read_text())
    assert "start of the server" in json.dumps(published["findings"]["bills"])
    if started.returncode == 0:  # else the machine was busy, and the record does not count
        assert "At the promise: local-cpu, " in said and "Throughput against latency" in page
        assert "Servers at a promised latency" in page and "ttft_p90_ms=1000" in page
