import pytest

from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.program import Better, metric_of, thing_of


@pytest.mark.parametrize(
    ("text", "unit", "better", "source"),
    [
        ("tokens/s: Throughput: ([0-9.]+) tok", "tokens/s", "higher", "Throughput: ([0-9.]+) tok"),
        ("p99 latency (ms): json latency.p99", "ms", "lower", "json latency.p99"),
        ("hit rate (%, higher): hits ([0-9.]+)%", "%", "higher", "hits ([0-9.]+)%"),
        ("loss (lower): in log.csv: csv 3.loss", "", "lower", "csv 3.loss"),
        ("ms: took (\\d+)", "ms", "lower", "took (\\d+)"),
        ("bus bandwidth (GB/s): : ([0-9.]+)", "GB/s", "higher", ": ([0-9.]+)"),
    ],
)
def test_a_metric_has_a_unit_a_direction_and_a_place(text, unit, better, source):
    metric = metric_of(text)
    assert (metric.unit, metric.better) == (unit, Better(better))
    assert source in (metric.pattern, f"{metric.kind} {metric.path}")
    assert metric.file == ("log.csv" if "in log.csv" in text else "")
    assert metric_of(metric.text) == metric


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("tokens/s", "is not of the form NAME: PATTERN"),
        ("accuracy: acc=(.*)", "say whether higher or lower is better, such as 'accuracy (lower): …'"),
        ("s: took", "has 0 groups; put the number alone in parentheses"),
        ("s: (a)(b)", "has 2 groups"),
        ("s: ([0-9", "is not a regular expression"),
        ("x (a, b): (.)", "more than a name, a unit and a direction"),
    ],
)
def test_a_mistake_is_a_sentence(text, sentence):
    with pytest.raises(WorkloadsError) as error:
        metric_of(text)
    assert sentence in str(error.value)


def test_a_rate_counts_a_thing():
    assert list(map(thing_of, ("tokens/s", "GB/sec", "requests per second", "ms", "s/it", "%"))) == [
        "tokens",
        "GB",
        "requests",
        "",
        "",
        "",
    ]
