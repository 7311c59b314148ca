import itertools
import math

from tests.workloads.serving.queueing import waits_behind
from workloads.harness.records.finite_json import to_json
from workloads.serving.__main__ import described
from workloads.serving.client import ServedAnswer
from workloads.serving.load import poisson
from workloads.serving.play import summary
from workloads.serving.promise import Promise, PromiseVerdict
from workloads.serving.search import is_decided, largest_rate, point

SERVICE_S = 0.05
PROMISE = Promise.parse("ttft_p90_ms=120")


def measured_on_a_queue(seconds, seed, promise=PROMISE):
    """Return a function that plays a rate for some seconds, or until the promise is decided."""
    numbers, rule = itertools.count(), is_decided([promise])

    def measure(rate):
        name = f"{seed}.{next(numbers)}"
        count = int(rate * seconds) + 2
        waits = waits_behind(SERVICE_S, rate, count, name)
        answers = [
            ServedAnswer(due_s, due_s, due_s + wait, due_s + wait, tokens=1)
            for due_s, wait in zip(poisson(rate, name), waits, strict=False)
        ]
        looks = itertools.takewhile(lambda n: n < count, (int(50 * 1.5**k) for k in itertools.count()))
        count = next((look for look in looks if rule(answers[:look])), count)
        return point(rate, answers[:count], [promise], summary(answers[:count]))

    return measure


def true_rate(low=1.0, high=20.0):
    for _ in range(10):
        rate = (low + high) / 2
        waits = waits_behind(SERVICE_S, rate, 60_000, "truth")
        is_met = sum(wait > PROMISE.limit_s for wait in waits) <= 0.1 * len(waits)
        low, high = (rate, high) if is_met else (low, rate)
    return low


def test_the_interval_holds_the_largest_rate_and_the_rate_is_near_it():
    truth = true_rate()
    found = [largest_rate(measured_on_a_queue(60, seed), 1 / SERVICE_S, 1e9) for seed in range(20)]
    assert sum(result.low <= truth <= result.high for result in found) >= 18
    near = sorted(abs(result.point.rate / truth - 1) for result in found)
    assert near[10] < 0.1 and near[17] < 0.25


def test_a_promise_that_an_idle_server_breaks_has_no_rate():
    promise = Promise.parse("ttft_p50_ms=20")
    result = largest_rate(measured_on_a_queue(60, 1, promise), 20.0, 1e9)
    assert result.point is None and result.low == 0.0 and result.points[-1].verdict is PromiseVerdict.BROKEN


def test_a_search_ends_in_time():
    result = largest_rate(measured_on_a_queue(10, 1), 1.0, most_s=0.0)
    assert len(result.points) == 1 and result.high == math.inf


def test_a_rate_with_too_few_answers_ends_the_search():
    measure = measured_on_a_queue(60, 1, Promise.parse("ttft_p50_ms=20"))
    found = largest_rate(lambda rate: measure(rate) if rate > 5 else None, 20.0, 1e9)
    assert [trial.rate for trial in found.points] == [20.0, 10.0] and found.point is None
    assert largest_rate(lambda rate: None, 20.0, 1e9).point is None


def test_a_late_load_generator_decides_nothing():
    answers = [
        ServedAnswer(k * 0.1, k * 0.1 + 0.05, k * 0.1 + 0.9, k * 0.1 + 0.9, tokens=1) for k in range(100)
    ]
    late = point(10.0, answers, [PROMISE], summary(answers))
    assert late.verdict is PromiseVerdict.UNDECIDED and "bottleneck: it was 50.0 ms late" in late.reason
    in_time = [ServedAnswer(k * 0.1, k * 0.1, k * 0.1 + 0.05, k * 0.1 + 0.05, tokens=1) for k in range(100)]
    busy = point(10.0, in_time, [PROMISE], summary(in_time, cpu_share=0.97))
    assert busy.verdict is PromiseVerdict.UNDECIDED and "used 97% of a CPU" in busy.reason


def test_a_growing_queue_is_not_met_although_its_answers_are_in_time():
    answers = [ServedAnswer(k / 1000, k / 1000, k / 500, k / 500, tokens=1) for k in range(100)]
    growing = point(1000.0, answers, [PROMISE], summary(answers))
    assert growing.judged[0].quantile_s < PROMISE.limit_s and not growing.is_met
    assert growing.verdict is PromiseVerdict.UNDECIDED and "does not keep this rate up" in growing.reason


def test_a_rate_at_which_no_request_is_answered_is_not_met():
    answers = [ServedAnswer(n / 5, n / 5, None, 9.0, error="unanswered at the end") for n in range(20)]
    trial = point(5.0, answers, [PROMISE], summary(answers))
    assert not trial.is_met and trial.verdict is not PromiseVerdict.KEPT
    assert to_json(described(trial))
