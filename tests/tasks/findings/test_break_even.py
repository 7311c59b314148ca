import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.findings.break_even import BreakEvens, bracket, payback_calls
from tasks.findings.compare import compare
from tasks.results.values import RatioVerdict
from tests.tasks.examples.records import machine, repeats
from workloads.harness.records.case import Case

LETTERS = {"F": RatioVerdict.FASTER, "S": RatioVerdict.SLOWER, "U": RatioVerdict.UNDECIDED, "-": None}
TIGHT = (0.999, 1.0, 1.001)


def verdicts(text):
    """Return verdicts at 1, 2, 3, …: ahead (F), behind (S), undecided (U) or without a ratio (-)."""
    return {place: LETTERS[letter] for place, letter in enumerate(text, start=1)}


@pytest.mark.parametrize(
    ("text", "below", "above", "inside", "falls"),
    [
        ("SSFF", 2, 3, (), False),
        ("SUFF", 1, 3, (2,), False),
        ("S-FF", 1, 3, (), False),
        ("SF-", 1, 2, (), False),
        ("FFF", None, 1, (), False),
        ("UFF", None, 2, (), False),
        ("SSS", 3, None, (), False),
        ("SFU", 1, None, (), False),
        ("UUU", None, None, (), False),
        ("FFU", None, None, (), False),
        ("FFSS", 2, 3, (), True),
        ("FUS", 1, 3, (2,), True),
        ("FSU", 1, None, (), True),
        ("SFSF", 3, 4, (), False),
        ("FSF", 2, 3, (), False),
        ("", None, None, (), False),
    ],
)
def test_the_bracket_is_the_last_change_of_the_lead(text, below, above, inside, falls):
    found = bracket(verdicts(text))
    assert (found.below, found.above, found.inside, found.falls) == (below, above, inside, falls)


@given(st.text("FSU-", max_size=9))
def test_a_bracket_has_only_measured_sizes(text):
    told, found = verdicts(text), bracket(verdicts(text))
    wins, loses = (LETTERS["S"], LETTERS["F"]) if found.falls else (LETTERS["F"], LETTERS["S"])
    if found.below is not None:
        assert told[found.below] is loses
        assert not any(told[value] is loses for value in told if value > found.below)
    if found.above is not None:
        assert all(told[value] in (wins, None) for value in told if value >= found.above)
    if found.below is not None and found.above is not None:
        assert found.below < found.above and all(found.below < v < found.above for v in found.inside)


def times(sizes, of, hardware, spread=TIGHT, **changes):
    """Return repeats of matmul on one machine, `of(size)` seconds each."""
    return [r for n in sizes for r in repeats([of(n) * s for s in spread], matmul(n), hardware, **changes)]


def matmul(n):
    return Case.of("matmul", {"n": n})


def compared(gpu_usd=1.0, sizes=(200, 500, 1000), spread=TIGHT, cpu=lambda n: 2e-5 * n, gpu=lambda n: 8e-3):
    """Compare a CPU whose time grows with n with a constant GPU: they cross at 400."""
    records = [*times(sizes, cpu, "cpu", spread), *times(sizes, gpu, "gpu", spread)]
    return compare(records, (machine("cpu", 1.0), machine("gpu", gpu_usd)), "cpu")


def test_crossings_by_time_end_to_end_and_cost():
    time, end_to_end, cost = compared(gpu_usd=2.0).finding(BreakEvens).break_evens
    assert (time.by, time.below, time.above, time.parameter, time.fixed) == ("time", 200, 500, "n", ())
    assert time.sentence == "matmul fp32: gpu is faster than cpu from n between 200 and 500"
    assert (end_to_end.by, end_to_end.above) == ("end to end", 500)
    assert (cost.below, cost.above) == (500, 1000)  # twice the price: they cross at 800
    assert cost.sentence == "matmul fp32: gpu is cheaper than cpu from n between 500 and 1000"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sizes": (500, 1000)}, "matmul fp32: gpu is faster than cpu at every measured n, 500 to 1000"),
        ({"sizes": (100, 200)}, "matmul fp32: cpu is faster than gpu at every measured n, 100 to 200"),
        (
            {"sizes": (200, 400, 1000)},
            "matmul fp32: gpu is faster than cpu from n between 200 and 1000; undecided at 400",
        ),
        ({"spread": (1.0,)}, "matmul fp32: undecided at every measured n, 200 to 1000"),
        (
            {"sizes": (200, 400)},
            "matmul fp32: cpu is faster than gpu at n=200; undecided at n=400",
        ),
        (
            {"gpu": lambda n: 8e-3 if n > 200 else 1e-3, "sizes": (200, 300, 500)},
            "matmul fp32: gpu is faster than cpu from n between 300 and 500; and at 200",
        ),
        (
            {"gpu": lambda n: 5e-8 * n**2},
            "matmul fp32: cpu is faster than gpu from n between 200 and 500",
        ),
    ],
)
def test_sentences_cover_everything_that_was_measured(changes, sentence):
    assert compared(**changes).finding(BreakEvens).break_evens[0].sentence == sentence


def test_every_size_parameter_is_followed_with_the_others_fixed_but_not_hands():
    cases = [
        Case.of("job", {"pixels": pixels, "batch": batch, "processes": processes})
        for pixels in (64, 128)
        for batch in (1, 2)
        for processes in (1, 2)
    ]
    records = [
        r
        for case in cases
        for name, slow in (("cpu", 2.0), ("gpu", 1.0))
        for r in repeats([case.params["pixels"] * slow * s for s in TIGHT], case, name)
    ]
    found = compare(records, (machine("cpu"), machine("gpu")), "cpu").finding(BreakEvens).break_evens
    rows = {(c.parameter, c.fixed) for c in found}
    assert rows == {
        (name, tuple((other, v) for other, v in case.size if other != name))
        for case in cases
        for name in ("pixels", "batch")
    }


def test_a_size_without_a_counterpart_leaves_the_rest_alone():
    lonely = repeats([1.0, 1.0], matmul(5000), "gpu")
    records = [
        *times((200, 500), lambda n: 2e-5 * n, "cpu"),
        *times((200, 500), lambda n: 8e-3, "gpu"),
        *lonely,
    ]
    found = compare(records, (machine("cpu"), machine("gpu")), "cpu").finding(BreakEvens).break_evens[0]
    assert (found.below, found.above) == (200, 500)


@pytest.mark.parametrize(
    ("cold_s", "baseline_cold_s", "calls"), [(7.0, 2.0, 10.0), (2.0, 2.0, 0.0), (1.0, 2.0, 0.0)]
)
def test_calls_that_pay_a_longer_cold_start_back(cold_s, baseline_cold_s, calls):
    assert payback_calls(cold_s, baseline_cold_s, 0.5, 1.0) == calls


COLD_S = st.integers(0, 10**11).map(lambda ns: ns / 1e9)  # times that a clock can give, up to 100 s


@given(COLD_S, COLD_S, st.floats(1e-6, 10), st.floats(1.01, 1000))
def test_after_the_payback_both_machines_have_taken_as_long(cold_s, baseline_cold_s, step_s, factor):
    calls = payback_calls(cold_s, baseline_cold_s, step_s, step_s * factor)
    total, baseline_total = cold_s + calls * step_s, baseline_cold_s + calls * step_s * factor
    assert total == pytest.approx(baseline_total) if calls else total <= baseline_total


def test_payback_is_reported_only_where_the_machine_is_shown_to_be_faster():
    phases = {"process_start": 0.1, "import": 2.0, "context": 3.0, "build": 0.3, "first_call": 1.0}
    cold = {"phases_s": phases, "wall_s": sum(phases.values())}
    records = [
        *times((200, 1000), lambda n: 2e-5 * n, "cpu"),
        *times((200, 1000), lambda n: 8e-3, "gpu", **cold),
    ]
    small, large = compare(records, (machine("cpu"), machine("gpu")), "cpu").pairings
    assert small.payback_calls is None
    # 6.4 s cold against 2.4 s and a first call of 40 ms; a step of 20 ms against one of 8 ms
    assert large.payback_calls == pytest.approx((6.4 - 2.44) / 0.012, rel=1e-3)


def test_the_answer_says_where_it_pays_by_time_and_only_between_two_measurements():
    told = "matmul fp32: gpu is faster than cpu from n between 200 and 500."
    assert told in compared().sentences and told not in compared().observations
    assert not any("fp32: gpu is faster" in sentence for sentence in compared(sizes=(500, 1000)).sentences)


def test_of_many_break_evens_the_answer_tells_a_few():
    sizes = [{"n": n, "batch": batch} for n in (200, 1000) for batch in range(1, 9)]
    records = []
    for size in sizes:
        case = Case.of("job", size)
        records += repeats([size["n"] / 400 * s for s in TIGHT], case, "cpu") + repeats(TIGHT, case, "gpu")
    answer = compare(records, (machine("cpu"), machine("gpu")), "cpu").sentences
    assert sum("n between 200 and 1000" in sentence for sentence in answer) == 5
    assert any("3 more series of sizes" in sentence for sentence in answer)
