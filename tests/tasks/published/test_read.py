"""Reading a published table: what people have at hand is read, and what can't be is named by row and column."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import GridbenchError
from tasks.published.columns import ColumnKind, heading
from tasks.published.read import read_table
from tasks.published.review import review


@pytest.mark.parametrize(
    ("header", "kind", "unit"),
    [
        ("CPU Time (s)", ColumnKind.TIME, "s"),
        ("GPU time [ms]", ColumnKind.TIME, "ms"),
        ("gpu_ms", ColumnKind.TIME, "ms"),
        ("Latency in µs", ColumnKind.TIME, "µs"),
        ("Duration (min)", ColumnKind.TIME, "min"),
        ("Runtime", ColumnKind.TIME, ""),
        ("Speedup Factor", ColumnKind.SPEEDUP, ""),
        ("GPU speed-up", ColumnKind.SPEEDUP, ""),
        ("images/s", ColumnKind.RATE, "images"),
        ("Throughput (samples per second)", ColumnKind.RATE, "samples"),
        ("GFLOP/s", ColumnKind.RATE, "flops"),
        ("Batch Size", ColumnKind.SIZE, "batch"),
        ("GFLOP", ColumnKind.SIZE, "flops"),
        ("n", ColumnKind.SIZE, "n"),
        ("Std (ms)", ColumnKind.OTHER, ""),
        ("min", ColumnKind.OTHER, "min"),
        ("Price (USD/h)", ColumnKind.OTHER, "price_(usd/h)"),
        ("Operation", ColumnKind.OTHER, "operation"),
    ],
)
def test_a_header_says_what_its_column_holds(header, kind, unit):
    read = heading(header)
    assert read.kind is kind and (kind is ColumnKind.OTHER or read.column.unit == unit)


BOXES = {
    "ascii": "text before\n+---+---+\n| Op | cpu (s) | gpu (s) |\n|:--|--:|:-:|\n| a | 1.00 | 0.50 |\n+==+==+\n| Total | 1.00 | 0.50 |\n+--+\nand | after",
    "markdown": "# A title\n\n| Op | cpu (s) | gpu (s) |\n| --- | --- | --- |\n| **a** | 1.00 | 0.50 |\n| Total | 1.00 | 0.50 |\n",
    "drawn": "┏━━━┳━━┓\n┃ Op ┃ cpu (s) ┃ gpu (s) ┃\n┡━━━╇━━┩\n│ a │ 1.00 │ 0.50 │\n│ Total │ 1.00 │ 0.50 │\n└───┴──┘",
    "csv": "Op,cpu (s),gpu (s)\na,1.00,0.50\n\nTotal,1.00,0.50\n",
    "semicolons": "Op;cpu (s);gpu (s)\r\n\"a\";1.00;0.50\r\nTotal;1.00;0.50\r\n",
    "tabs": "Op\tcpu (s)\tgpu (s)\na\t1.00\t0.50\nTotal\t1.00\t0.50",
    "with units": "Op,cpu time,gpu (s)\na,1.00 s,0.50 s\nTotal,1.00 s,0.50\n",
}  # fmt: skip


@pytest.mark.parametrize("text", BOXES.values(), ids=BOXES)
def test_one_table_in_all_its_forms(text):
    table = read_table(text, "f")
    assert [row.name for row in table.rows] == ["a"] and table.total.name == "Total"
    assert [(p.text, p.value, p.step) for p in table.rows[0].times] == [
        ("1.00", 1, 0.01),
        ("0.50", 0.5, 0.01),
    ]


def times(*cells):
    return [row.times[0] for row in read_table("op,t (s)\n" + "".join(f"r,{c}\n" for c in cells), "f").rows]


@pytest.mark.parametrize(
    ("cells", "steps"),
    [
        (("0.50", "0.01"), (0.01, 0.01)),
        (("0.5", "0.01"), (0.1, 0.01)),  # rounded to one digit each, or to two places with a zero lost
        (("0.5", "0.01", "1.46"), (0.01, 0.01, 0.01)),
        (("0.0123", "1.23", "27.2"), (0.0001, 0.01, 0.1)),
        (("12", "100"), (1, 1)),
        (("1.5e-3", "2e-3"), (0.0001, 0.0001)),
    ],
)
def test_what_the_last_digit_is_worth(cells, steps):
    assert [printed.step for printed in times(*cells)] == pytest.approx(steps)


def test_numbers_as_people_write_them():
    assert [p and p.value for p in times("1e-2", ".5", "12 ms", "OOM", "-", "1234567")] == [
        0.01, 0.5, pytest.approx(0.012), None, None, 1234567,
    ]  # fmt: skip
    assert read_table('op,t (s)\nr,"1,234.5"\n', "f").rows[0].times[0].value == 1234.5
    assert read_table("op,a (s),b (s),speedup\nr,1,2,0.5x\n", "f").rows[0].speedups[0].value == 0.5


def test_the_base_is_the_column_that_says_so():
    assert read_table("op,gpu (s),cpu (s)\nr,1,2\n", "f").base == 1
    assert read_table("op,new (s),before (s)\nr,1,2\n", "f").base == 1
    assert read_table("op,a (s),b (s)\nr,1,2\n", "f").base == 0


def test_a_speedup_belongs_to_the_column_that_it_names():
    text = "op,CPU (s),A10 (s),L4 (s),L4 speedup,A10 speedup,speedup\nr,4.00,2.00,1.00,4.0,2.0,9\n"
    table = read_table(text, "f")
    assert [column.times_index for column in table.speedups] == [2, 1]
    assert table.skipped == ("column 'speedup' is not judged",)
    assert review(table).findings == ()


def test_rows_have_names_of_their_own():
    long = "op,device,time (s)\nmatmul,cpu,2\nmatmul,gpu,1\n"
    assert [row.name for row in read_table(long, "f").rows] == ["matmul, cpu", "matmul, gpu"]
    assert [r.name for r in read_table("n,time (s)\n10,2\n20,1\n", "f").rows] == ["n=10", "n=20"]
    assert [r.name for r in read_table("op,time (s)\na,2\na,1\n", "f").rows] == ["a (row 1)", "a (row 2)"]


def test_sizes_come_from_columns_too():
    (row,) = read_table("op,n,GFLOP,time (s)\nmatmul,1000,2,1\n", "f").rows
    assert row.sizes == (("n", 1000), ("flops", 2e9))


def test_what_is_left_out_is_said():
    text = "op,time (s),Memory (MB)\na,1,5\nSubtotal,1,5\nb,2,6\nMean,1.5,5\nTotal,3,11\n"
    table = read_table(text, "f")
    assert [row.name for row in table.rows] == ["a", "b"] and table.total.name == "Total"
    assert table.skipped == (
        "column 'Memory (MB)' is not judged",
        "row 'Subtotal' sums up others and is not judged",
        "row 'Mean' sums up others and is not judged",
    )
    two = "| op | t (s) |\n|--|--|\n| a | 1 |\n\n| op | t (s) |\n|--|--|\n| b | 1 |\n"
    assert read_table(two, "f").skipped == (
        "the file has 1 more tables with times: put each into a file of its own",
    )


def test_a_total_is_no_operation_with_that_word_in_its_name():
    assert read_table("op,t (s)\nTotal variation denoising,1\n", "f").total is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "f holds no table"),
        ("hello", "f holds no table"),
        ("\n\n\n", "f holds no table"),
        ("op,time (s)\n", "f holds no table: it needs a header and at least one row"),
        ("op,price\na,1\n", "f has no column of times among 'op', 'price'; write the unit into the header"),
        (
            "op,time\na,1\n",
            r"f, row 1 \(a\), column 'time': '1' has no unit; write the header as 'time \(s\)'",
        ),
        ("op,a (s)\nx,1\ny,0.0four\n", r"f, row 2 \(y\), column 'a \(s\)': '0.0four' is not a number"),
        ('op,a (s)\nx,"0,50"\n', "'0,50' is not a number such as 0.50; write a decimal point"),
        ('op,a (s)\nx,"1,234"\n', "'1,234' is not a number"),
        ("op,a (s)\nx,<0.01\n", "no sign like ~ or <"),
        ("op,a (s)\nx,1 GB\n", "'1 GB' is not a number"),
        ("op,n,a (s)\nx,-5,1\n", r"row 1 \(x\), column 'n': '-5' must be above 0"),
        ("op,a (s)\nx,1,2\n", r"f, row 1 \(x\) has 3 cells, the header has 2"),
        ("op,a (s),a (s)\nx,1,2\n", r"f has two columns named 'a \(s\)'; name each once"),
        ('op,a (s)\n"x,1\n', "f is neither CSV nor a table"),
        ("op,a (s)\n" + "x,1\n" * 1001, "f has 1001 rows, a published table at most 1000"),
        (f"op,a (s)\nx,{'1' * 400}\n", "has 400 characters, at most 300 are read"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(text, words):
    with pytest.raises(GridbenchError, match=words) as caught:
        read_table(text, "f")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


CELLS = st.one_of(
    st.floats(allow_nan=True).map(str),
    st.integers(-(10**30), 10**30).map(str),
    st.sampled_from(["", "-", "OOM", "1.50 ms", "2x", "1e-300", "1e300", "0", "0.00", "n/a", "9" * 250]),
    st.text(max_size=8),
)
HEADERS = st.sampled_from(
    [
        "op",
        "cpu (s)",
        "gpu (ms)",
        "speedup",
        "gpu speedup",
        "images/s",
        "batch",
        "flops",
        "GFLOP/s",
        "time",
        "notes",
    ]
)


@given(
    header=st.lists(HEADERS, min_size=2, max_size=6, unique=True),
    rows=st.lists(st.tuples(*[CELLS] * 6), min_size=1, max_size=4),
)
def test_any_table_is_judged_or_refused_in_a_sentence(header, rows):
    buffer = io.StringIO()
    csv.writer(buffer).writerows([header, *(row[: len(header)] for row in rows)])
    try:
        judged = review(read_table(buffer.getvalue(), "f"))
    except GridbenchError as error:
        assert "\n" not in str(error)
        return
    assert all(finding.text and "\n" not in finding.text for finding in judged.findings)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text):
    try:
        review(read_table(text, "f"))
    except GridbenchError:
        return
