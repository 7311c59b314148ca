"""A real engine, llama.cpp with a small model of random weights: the load generator has its counts and its times."""

import asyncio
import itertools
import re
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tasks.travel.environment import environment_for
from workloads.harness.script.serving import free_port, reply
from workloads.serving.client import Server
from workloads.serving.load import Lengths, drawn_requests
from workloads.serving.play import Play, closed_loop

pytestmark = [
    pytest.mark.alone,
    pytest.mark.timeout(1200),
    pytest.mark.flaky(reruns=2, reason="the engine answers late where the machine is busy"),
]
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
