"""The load generator against servers with known delays: within 1 % or 1 ms of the times in their logs."""

import asyncio
import contextlib
import itertools
import os
import statistics

import pytest

from tests.workloads.serving.queueing import waits_behind
from tests.workloads.serving.scripted import Script, scripted
from workloads.serving.client import Server
from workloads.serving.load import Lengths, drawn_requests, poisson
from workloads.serving.play import Play, closed_loop, open_loop, summary
from workloads.serving.promise import quantile

pytestmark = [
    pytest.mark.alone,
    pytest.mark.flaky(reruns=2, reason="a neighbour on the machine makes both sides late by milliseconds"),
]
RATE, SECONDS, WARM_UP_S, PARTS = 40, 6, 2, 8


@pytest.fixture(autouse=True, scope="module")
def first_of_all():
    """No other process of the machine makes the load generator or the server wait, as far as the kernel permits it."""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    yield
    os.sched_setscheduler(0, *before)


def close(value, truth):
    return value == pytest.approx(truth, rel=0.01, abs=1e-3)


def played(
    script, path="/v1/completions", rate=RATE, seconds=SECONDS, timeout_s=60.0, patience_s=1.0, warm_up_s=0.0
):
    """Return the answers, and the server's own times of each request, in the same order."""
    play = Play(most_s=warm_up_s + seconds, warm_up_s=warm_up_s, patience_s=patience_s)
    requests = drawn_requests(Lengths(20, 20), Lengths(PARTS, PARTS), 1)
    first = sum(1 for _ in itertools.takewhile(lambda due_s: due_s < warm_up_s, poisson(rate, 1)))
    with scripted(script) as (address, log):
        server = Server(address + path, {}, timeout_s)
        answers = asyncio.run(open_loop(server, poisson(rate, 1), requests, play))
        return answers, log()[first : first + len(answers)]


@pytest.mark.parametrize(
    "script",
    [
        Script(first_s=0.05, next_s=0.01),
        Script(first_s=0.2, next_s=0.0),
        Script(first_s=0.001, next_s=0.002),
        Script(first_s=0.02, next_s=0.1),
        Script(first_s=0.02, next_s=0.01, pause_s=0.3),
    ],
    ids=["usual", "slow first token", "fast", "slow stream", "stall within an answer"],
)
def test_latencies_are_those_of_the_server(script):
    answers, times = played(script, warm_up_s=WARM_UP_S)
    of_server = {
        "ttft": [t[1] - t[0] for t in times],
        "tpot": [(t[-1] - t[1]) / (len(t) - 2) for t in times],
        "itl": [max(b - a for a, b in itertools.pairwise(t[1:])) for t in times],
        "e2e": [t[-1] - t[0] for t in times],
    }
    measured = summary(answers)
    assert not measured.errors and not measured.is_late
    for metric, seconds in of_server.items():
        for name, share in (("p50", 0.5), ("p90", 0.9)):
            assert close(measured.quantiles[metric][name], quantile(seconds, share)), (metric, name)
    nominal = {"ttft": script.first_s, "tpot": script.next_s + script.pause_s / (PARTS - 1)}
    for metric, seconds in nominal.items():
        assert close(measured.quantiles[metric]["p50"], seconds), metric


@pytest.mark.parametrize("rate", [20, 40, 60], ids=["half full", "nearly full", "too many"])
def test_waits_in_a_queue_are_those_of_its_arrivals(rate):
    """One worker, 20 ms a request, also beyond 50 requests a second."""
    answers, _ = played(Script(service_s=0.02), rate=rate, patience_s=10.0)
    truth = waits_behind(0.02, rate, len(answers), seed=1)
    measured = summary(answers)
    assert len(answers) > 100 and not measured.errors
    for share in (0.5, 0.9, 0.99):
        ttfts_s = [answer.ttft_s for answer in answers]
        assert quantile(ttfts_s, share) == pytest.approx(quantile(truth, share), rel=0.03, abs=3e-3)


def test_requests_due_in_a_stall_count_in_full():
    """Clients that wait for each other would meet the 2 s stall once each."""
    script = Script(first_s=0.01, stall_s=(1.0, 3.0))
    answers, _ = played(script)
    due_in_it = [answer for answer in answers if 1.0 < answer.due_s - answers[0].due_s < 2.95]
    assert len(due_in_it) > 60
    for answer in due_in_it:
        assert answer.ttft_s == pytest.approx(
            3.0 - (answer.due_s - answers[0].due_s), abs=0.1
        )  # the server answers all of them at once
    with scripted(script) as (address, _):
        play = Play(most_s=SECONDS, warm_up_s=0.0, patience_s=1.0)
        requests = drawn_requests(Lengths(20, 20), Lengths(PARTS, PARTS), 1)
        closed = asyncio.run(closed_loop(Server(f"{address}/v1/completions", {}), 2, requests, play))
    assert sum(answer.ttft_s > 0.5 for answer in closed) == 2


def test_errors_cut_answers_and_hanging_ones_are_counted_by_reason():
    answers, times = played(Script(fails_every=5))
    assert summary(answers).errors == {"HTTP 503": len(times) // 5}
    answers, times = played(Script(cuts_every=4))
    assert sum(summary(answers).errors.values()) == len(times) // 4
    answers, _ = played(Script(hangs_every=3), timeout_s=1.5)
    errors = summary(answers).errors
    assert sum(errors.values()) == pytest.approx(len(answers) / 3, abs=2)
    assert set(errors) <= {"no whole answer in 1.5 s", "unanswered at the end"}


@pytest.mark.parametrize(("script", "tokens"), [(Script(tokens_a_part=3), 24), (Script(tokens_a_part=0), 8)])
def test_tokens_are_the_servers_or_else_the_parts(script, tokens):
    answers, _ = played(script, "/v1/chat/completions", seconds=2)
    assert {answer.tokens for answer in answers} == {tokens}
    assert summary(answers).output_tokens == tokens * len(answers)


def test_a_thousand_tokens_a_second_do_not_make_the_generator_late():
    answers, _ = played(Script(first_s=0.1, next_s=0.02), rate=100)
    measured = summary(answers)
    assert not measured.is_late and measured.requests_per_s == pytest.approx(100, rel=0.15)
    assert statistics.median(answer.sent_s - answer.due_s for answer in answers) < 1e-3
