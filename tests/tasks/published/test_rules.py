"""The rules over a published table: each fires on its own mistake, and on nothing that may be true."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.published.review import review
from tasks.published.sizes import flops, more_work, read_sizes
from tasks.published.table import Printed, PublishedColumn, PublishedTable, TableRow
from tasks.published.totals import overall
from tests.tasks.examples.records import machine

TIMES = (PublishedColumn("CPU Time (s)", "s"), PublishedColumn("GPU Time (s)", "s"))
PEAKS = machine("card", peak_flops=(("fp32", 10e12), ("fp16", 80e12)), peak_bytes_per_s=300e9)


def printed(text):
    if text is None:
        return None
    places = len(text.partition(".")[2])
    return Printed(text, float(text), 10.0**-places)


def row(name, *times, speedup=None, rate=None, **sizes):
    kind, found = read_sizes(name)
    return TableRow(
        name,
        tuple(map(printed, times)),
        () if speedup is None else (printed(speedup),),
        () if rate is None else (printed(rate),),
        kind,
        (*found, *sizes.items()),
    )


def table(*rows, total=None, speedups=False, rate=None, times=TIMES):
    columns = (PublishedColumn("Speedup", times_index=1),) if speedups else ()
    return PublishedTable(times, rows, columns, (rate,) if rate else (), total)


def found(made, *more):
    return {finding.rule: finding.text for finding in review(made, *more).findings}


def test_a_sound_table_has_nothing():
    rows = [row(f"Matrix {n}x{n}", f"{n**3 / 1e10:.4f}", f"{n**3 / 3e11:.4f}") for n in (1000, 2000, 4000)]
    sums = (f"{sum(r.times[i].value for r in rows):.4f}" for i in (0, 1))
    assert found(table(*rows, total=row("Total", *sums)), PEAKS) == {}


@pytest.mark.parametrize(
    ("time", "words"),
    [
        ("0.00", "b took 0.00 s in GPU Time (s), which only says that it is below 0.0050 s"),
        ("-0.20", "b took -0.20 s in GPU Time (s), which is no time"),
        ("nan", "b took nan s in GPU Time (s), which is no time"),
        ("inf", "b took inf s in GPU Time (s), which is no time"),
    ],
)
def test_what_is_no_time_is_named_and_enters_no_ratio(time, words):
    judged = review(table(row("a", "1.00", "0.50"), row("b", "1.00", time)))
    assert [f.rule for f in judged.findings] == ["not a time"] and words in judged.findings[0].text
    assert [claim.bounds is None for claim in judged.claims] == [False, True]


def test_a_copy_needs_more_equal_digits_than_chance_gives():
    assert (
        "a and b have the same figures"
        in found(table(row("a", "0.29", "0.16"), row("b", "0.29", "0.16")))["copied row"]
    )
    assert found(table(row("a", "0.01", "0.01"), row("b", "0.01", "0.01"))) == {}
    assert found(table(row("a", "0.29", "0.16"), row("b", "0.29", "0.17"))) == {}
    assert found(table(row("a", "0.29", None), row("b", "0.29", None))) == {}


@pytest.mark.parametrize(
    ("quoted", "fires"), [("33.0", False), ("101.0", False), ("32.0", True), ("102.0", True)]
)
def test_a_speedup_may_be_all_that_rounding_leaves_and_no_more(quoted, fires):
    said = found(table(row("a", "0.50", "0.01", speedup=quoted), speedups=True))
    assert ("speedup that its times don't give" in said) is fires


def test_digits_that_rounding_does_not_leave():
    said = found(
        table(
            row("a", "0.50", "0.01", speedup="50.00"),
            row("b", "50.00", "10.00", speedup="5.00"),
            speedups=True,
        )
    )
    assert said == {
        "digits that rounding doesn't leave": "1 of 2 speedups are printed more exactly than their rounded times "
        "allow: 50.00 of a is 33.0–101"
    }


def test_a_table_that_prints_new_over_old_is_read_that_way():
    rows = [row(f"r{i}", f"{t}.00", f"{2 * t}.00", speedup="2.00") for i, t in enumerate((10, 20, 33))]
    judged = review(table(*rows, speedups=True))
    assert judged.findings == () and judged.table.base == 1
    assert [claim.bounds.value for claim in judged.claims] == [2, 2, 2]


@pytest.mark.parametrize(
    ("total", "rule"),
    [
        ("3.02", None),
        ("2.98", None),
        ("3.05", "seconds in no row"),
        ("2.90", "seconds that are not in the total"),
    ],
)
def test_a_total_may_differ_from_its_rows_by_their_rounding_only(total, rule):
    rows = [row(str(i), "1.00", "1.00") for i in "abc"]
    rules = set(found(table(*rows, total=row("Total", total, "3.00")))) - {"copied row"}
    assert rules - {"one speedup of the whole among several"} == ({rule} if rule else set())


def test_a_total_over_rows_without_a_number_is_not_compared():
    assert found(table(row("a", "1.0", None), row("b", "2.0", "1.0"), total=row("Total", "3.0", "9.0"))) == {}


def test_a_cold_first_row_is_the_one_off_that_more_work_does_not_have():
    rows = [row("Matrix 1000x1000", "0.02", "0.88"), row("Matrix 5000x5000", "0.50", "0.01")]
    assert "at least 0.86 s were spent once" in found(table(*rows))["cold first row"]
    assert "cold first row" not in found(table(*rows[::-1]))  # a later one is no cold start
    assert "time that falls as work grows" in found(table(*rows[::-1]))


def test_time_falls_beyond_rounding_and_by_more_than_half_or_nothing_is_said():
    def pair(larger):
        return table(row("warm", "9.0", "9.0"), row("x n=10", "1.00", "1.00"), row("x n=20", "1.00", larger))

    assert (
        "x n=20 took 0.40 s in GPU Time (s), x n=10 took 1.00 s for less work" in found(pair("0.40")).values()
    )
    assert found(pair("0.60")) == {}


@pytest.mark.parametrize(
    ("larger", "smaller", "expected"),
    [
        ("Image 4096x4096 (batch 2)", "Image 2048x2048 (batch 1)", True),
        ("Image 4096x4096 (batch 1)", "Image 2048x2048 (batch 2)", False),
        ("Matrix 8192x8192", "Matrix 8000x8000", False),
        ("Matrix 8000x8000", "Image 1000x1000", False),
        ("ResNet-50", "ResNet-18", False),
        ("Test 8", "Test 3", False),
        ("train workers=8", "train workers=1", False),
        ("epoch=9", "epoch=1", False),
        ("bs32 fp16", "bs8 fp16", True),
        ("bs32 fp16", "bs8 fp32", False),
        ("Sort 10,000 elements", "Sort 1,000 elements", True),
    ],
)
def test_only_sizes_of_one_kind_are_compared(larger, smaller, expected):
    assert more_work(row(larger, "1", "1"), row(smaller, "1", "1")) is expected


@pytest.mark.parametrize(
    ("name", "sizes", "expected"),
    [
        ("Matrix 1000x1000", {}, 2e9),
        ("matmul", {"n": 1000.0}, 2e9),
        ("gemm 10x20x30", {}, 12_000),
        ("Matrix multiplication 100 × 100 (batch 4)", {}, 8e6),
        ("anything", {"flops": 5e9}, 5e9),
        ("Matrix transpose 1000x1000", {}, None),
        ("Matrix 1000x500", {}, None),
        ("Image 4096x4096", {}, None),
        ("Matrix product", {}, None),
    ],
)
def test_flops_only_of_products_of_matrices(name, sizes, expected):
    assert flops(row(name, "1", "1", **sizes)) == expected


def test_above_the_peak_only_if_no_rounding_can_explain_it():
    fast, coarse = row("Matrix 5000x5000", "0.500", "0.002"), row("Matrix 5000x5000", "0.50", "0.01")
    judged = review(table(fast), PEAKS)
    assert judged.findings[0].text == (
        "Matrix 5000x5000 would run at 100 TFLOP/s or more in GPU Time (s), above the peak of card in fp16, its "
        "highest, 80 TFLOP/s"
    )
    assert judged.notes == ("the precision isn't stated: held against card in fp16, its highest, 80 TFLOP/s",)
    assert found(table(coarse), PEAKS) == {}
    stated = review(table(row("Matrix 5000x5000 fp32", "0.50", "0.01")), PEAKS)
    assert "above the peak of card in fp32, 10 TFLOP/s" in stated.findings[0].text and stated.notes == ()


def test_above_the_bandwidth_and_nothing_to_hold():
    assert (
        "above the memory bandwidth of card, 300 GB/s"
        in found(table(row("copy", "1.00", "0.10", bytes=1e11)), PEAKS)["above the peak"]
    )
    assert review(table(row("a", "1.00", "0.50")), PEAKS).notes == (
        "no row states work that the peaks of card could limit",
    )


def test_a_rate_is_its_count_over_its_time_within_five_percent():
    rate = PublishedColumn("images/s", "images", times_index=1)

    def rules(*rates):
        return found(
            table(*(row(f"r{i}", "9.00", "2.00", rate=r, batch=64.0) for i, r in enumerate(rates)), rate=rate)
        )

    assert not [r for r in rules("32.0", "31.0", "33.4") if "rate" in r]
    said = rules("32.0", "64.0", "32.0")["rate that its time doesn't give"]
    assert said.startswith(
        "r1 has 64.0 in images/s, its images or batch over its time give 31.9–32.1: 2.00 times that"
    )
    assert "and so is every row" in rules("64.0", "64.0", "64.0")["rate that its time doesn't give"]


def test_columns_in_different_units_are_brought_together():
    times = (PublishedColumn("CPU (s)", "s"), PublishedColumn("GPU (ms)", "ms", 1e-3))
    judged = review(table(row("a", "1.0", "100"), total=row("Total", "1.0", "100"), times=times))
    assert judged.claims[0].bounds.value == pytest.approx(10)
    assert dict(overall(judged.table, 1))["by the total"].value == pytest.approx(10)
    assert judged.findings == ()


@given(
    times=st.lists(st.tuples(*[st.floats(0.02, 1e3)] * 2), min_size=1, max_size=12),
    places=st.integers(2, 4),
)
def test_a_table_that_was_measured_and_rounded_is_never_accused(times, places):
    """Whatever is true and rounded as printed contradicts no rule about its own numbers."""
    rows = [
        row(f"{'abcdefghijkl'[i]}", *(f"{t:.{places}f}" for t in pair), speedup=f"{pair[0] / pair[1]:.2f}")
        for i, pair in enumerate(times)
    ]
    total = [math.fsum(pair[i] for pair in times) for i in (0, 1)]
    made = table(
        *rows,
        total=row("Total", *(f"{t:.{places}f}" for t in total), speedup=f"{total[0] / total[1]:.2f}"),
        speedups=True,
    )
    assert {rule for rule in found(made)} <= {"digits that rounding doesn't leave", "copied row"}
    for claim, true in zip(
        review(made).claims, [*(a / b for a, b in times), total[0] / total[1]], strict=True
    ):
        if review(made).table.base == 0:
            assert claim.bounds.low * (1 - 1e-9) <= true <= claim.bounds.high * (1 + 1e-9)
