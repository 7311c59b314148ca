import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workloads.serving.scripted import Script, scripted
from workloads.harness.records.program import PromisedRate
from workloads.harness.records.typed_json import build

ROOT = Path(__file__).parents[4]


def serving(address, *words):
    command = [sys.executable, "-m", "workloads.serving", address, "--output-tokens", "6", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_search_finds_the_rate_of_a_server_at_its_promise():
    """One worker, 50 ms a request: 20 a second at most, fewer at a promise."""
    with scripted(Script(service_s=0.05, tokens_a_part=3)) as (address, _):
        done = serving(
            f"{address}/v1/chat/completions",
            *(
                "--promise",
                "ttft_p90_ms=400",
                "--seconds",
                "4",
                "--search-seconds",
                "12",
                "--warm-up-seconds",
                "0.5",
            ),
        )
    result = json.loads(done.stdout)
    assert done.returncode == 0 and 1 < result["requests_per_s"] < 20
    found = build(PromisedRate, result["promised"], "promised")
    assert found.low <= found.requests_per_s <= (found.high or 1e9) and found.promises == ("ttft_p90_ms=400",)
    assert found.output_tokens_per_s == pytest.approx(18 * found.requests_per_s) and found.limits_s == (0.4,)
    assert result["points"][0]["output_tokens"] == 18 * result["points"][0]["requests"]
    assert result["idle"]["quantiles"]["ttft"]["p50"] >= 0.05


def test_a_server_too_slow_for_the_time_of_a_rate_is_one_sentence():
    with scripted(Script(service_s=0.5)) as (address, _):
        words = ("--promise", "ttft_p90_ms=100", "--seconds", "1", "--warm-up-seconds", "0")
        done = serving(f"{address}/v1/completions", *words)
    assert done.returncode == 1 and done.stdout == ""
    assert re.fullmatch(
        r"error: no rate above .+ requests a second met the promises, .+ --seconds\n", done.stderr
    )


def test_a_server_that_answers_nothing_is_one_sentence():
    with scripted(Script(fails_every=1)) as (address, _):
        done = serving(
            f"{address}/v1/completions", "--rate", "50", "--seconds", "3", "--warm-up-seconds", "0"
        )
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("error: no request of ") and "HTTP 503" in done.stderr


@pytest.mark.parametrize(("words", "part"), [((), "--promise"), (("--promise", "ttft=5"), "ttft_p99_ms=500")])
def test_a_missing_option_of_serving_is_named(words, part):
    done = serving("http://127.0.0.1:9/v1/completions", *words)
    assert done.returncode == 2 and part in done.stderr
