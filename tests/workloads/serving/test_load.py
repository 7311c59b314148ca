import itertools
import statistics

import pytest

from workloads.serving.load import Lengths, drawn_requests, poisson, requests_of_file, trace


def test_arrivals_are_independent_at_the_asked_rate():
    times_s = list(itertools.islice(poisson(20, seed=1), 20_000))
    gaps_s = [b - a for a, b in itertools.pairwise(times_s)]
    assert statistics.fmean(gaps_s) == pytest.approx(1 / 20, rel=0.03)
    assert statistics.stdev(gaps_s) == pytest.approx(
        1 / 20, rel=0.03
    )  # that of an exponential law is its mean
    assert list(itertools.islice(poisson(20, seed=1), 5)) == times_s[:5]
    assert list(itertools.islice(poisson(20, seed=2), 5)) != times_s[:5]


def test_requests_have_the_asked_lengths_and_no_common_prefix():
    requests = list(itertools.islice(drawn_requests(Lengths(50, 60), Lengths(5, 5), seed=3), 200))
    words = [request.prompt.split() for request in requests]
    assert {len(prompt) for prompt in words} == set(range(50, 61))
    assert {request.output_tokens for request in requests} == {5}
    assert len({tuple(prompt[:4]) for prompt in words}) == 200


@pytest.mark.parametrize("text", ["", "a", "0", "5-", "9-3", "1-2000000", "-4"])
def test_invalid_lengths_are_refused(text):
    with pytest.raises(ValueError, match="token"):
        Lengths.parse(text)


def test_a_file_of_requests_is_repeated(tmp_path):
    file = tmp_path / "requests.jsonl"
    file.write_text('{"prompt": "a", "output_tokens": 1}\n{"prompt": "b", "output_tokens": 2}\n')
    assert [request.prompt for request in itertools.islice(requests_of_file(file), 5)] == list("ababa")


@pytest.mark.parametrize("line", ['{"prompt": "a"}', "[]", "a", '{"prompt": "", "output_tokens": 1}'])
def test_a_line_that_is_no_request_is_named(tmp_path, line):
    file = tmp_path / "requests.jsonl"
    file.write_text('{"prompt": "a", "output_tokens": 1}\n' + line)
    with pytest.raises(ValueError, match="line 2"):
        requests_of_file(file)


def test_a_trace_is_played_at_its_times(tmp_path):
    file = tmp_path / "times.txt"
    file.write_text("0.5\n1\n4\n")
    assert list(trace(file, speed=2.0)) == [0.25, 0.5, 2.0]
    file.write_text("1\n0.5\n")
    with pytest.raises(ValueError, match="rise"):
        trace(file)
