import math
import random

import pytest

from tests.workloads.serving.queueing import waits_behind
from workloads.serving.client import ServedAnswer
from workloads.serving.promise import Promise, PromiseVerdict, judge, quantile, share_interval

TTFT = Promise("ttft", 0.99, 0.5)


def answers(ttfts_s):
    return [ServedAnswer(float(k), k, k + s, k + s, tokens=1) for k, s in enumerate(ttfts_s)]


@pytest.mark.parametrize(
    ("text", "promise"),
    [
        ("ttft_p99_ms=500", TTFT),
        ("tpot_p50_ms=12.5", Promise("tpot", 0.5, 0.0125)),
        ("e2e_p90_s=3", Promise("e2e", 0.9, 3.0)),
        ("itl_p95_ms = 80", Promise("itl", 0.95, 0.08)),
    ],
)
def test_a_promise_is_read(text, promise):
    assert Promise.parse(text) == promise and Promise.parse(str(promise)) == promise


@pytest.mark.parametrize(
    "text", ["", "ttft=5", "ttft_p98_ms=5", "ttft_p99_ms=0", "ttft_p99_ms=1.2.3", "x_p99_s=1"]
)
def test_an_invalid_promise_says_how_one_is_written(text):
    with pytest.raises(ValueError, match="ttft_p99_ms=500"):
        Promise.parse(text)


def test_few_answers_decide_nothing_and_many_do():
    assert judge(TTFT, answers([0.1] * 100)).verdict is PromiseVerdict.UNDECIDED
    assert judge(TTFT, answers([0.1] * 600)).verdict is PromiseVerdict.KEPT
    assert judge(TTFT, answers(([0.9] + [0.1] * 9) * 30)).verdict is PromiseVerdict.BROKEN


def test_requests_that_are_late_at_one_moment_decide_little():
    assert judge(TTFT, answers([0.9] * 10 + [0.1] * 90)).verdict is PromiseVerdict.UNDECIDED


def test_failed_requests_break_a_promise():
    mixed = answers([0.1] * 300)
    for answer in mixed[::5]:
        answer.error = "HTTP 503"
    held = judge(TTFT, mixed)
    assert held.verdict is PromiseVerdict.BROKEN and held.quantile_s == math.inf and held.broken_share == 0.2


def test_a_quantile_is_one_of_the_values():
    values = list(range(1, 101))
    assert [quantile(values, share) for share in (0.5, 0.9, 0.99, 1.0)] == [50, 90, 99, 100]
    assert quantile([], 0.5) == math.inf


def test_an_interval_of_a_share_holds_it():
    draw, held = random.Random(5), 0
    for _ in range(1000):
        share = sum(draw.random() < 0.03 for _ in range(400)) / 400
        low, high = share_interval(share, 400, z=1.96)
        held += low <= 0.03 <= high
    assert 930 <= held <= 975
    assert share_interval(0.0, 0, z=1.96) == (0.0, 1.0)


def test_requests_that_are_late_together_count_as_fewer():
    limit_s = 0.2
    waits = waits_behind(0.05, 16, 100_000, seed="truth")
    truth, correlated, independent = sum(wait > limit_s for wait in waits) / len(waits), 0, 0
    for seed in range(100):
        late = [wait > limit_s for wait in waits_behind(0.05, 16, 800, seed)]
        judged = judge(Promise("ttft", 0.9, limit_s), answers([1.0 if value else 0.0 for value in late]))
        correlated += judged.low <= truth <= judged.high
        low, high = share_interval(judged.broken_share, len(late), z=2.326)
        independent += low <= truth <= high
    assert correlated >= 92 and independent < 75, (correlated, independent)
