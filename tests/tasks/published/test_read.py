import csv
import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tasks.errors import GridbenchError
from tasks.published.columns import heading
from tasks.published.numbers import readings
from tasks.published.read import read_tables
from tasks.published.review import review
from tasks.published.table import ColumnKind


@pytest.mark.parametrize(
    ("header", "kind", "unit"),
    [
        ("CPU Time (s)", ColumnKind.TIME, "s"),
        ("gpu_ms", ColumnKind.TIME, "ms"),
        ("latency-ms", ColumnKind.TIME, "ms"),
        ("YOLOv5-s", ColumnKind.OTHER, ""),
        ("FasterTransformers Latency (ms)", ColumnKind.TIME, "ms"),
        ("Latency in µs", ColumnKind.TIME, "us"),
        ("Duration (min)", ColumnKind.TIME, "min"),
        ("Median latency (milliseconds)", ColumnKind.TIME, "milliseconds"),
        ("train time (s/iter)", ColumnKind.TIME, "s"),
        ("ns/op", ColumnKind.TIME, "ns"),
        ("FTL(min)(s)", ColumnKind.TIME, "s"),
        ("Hours / 1B tokens", ColumnKind.TIME, "hours"),
        ("Runtime", ColumnKind.TIME, ""),
        ("Speedup Factor", ColumnKind.RATIO, ""),
        ("GPU speed-up", ColumnKind.RATIO, ""),
        ("vs. orjson", ColumnKind.RATIO, ""),
        ("Change (%)", ColumnKind.RATIO, ""),
        ("Scaling efficiency", ColumnKind.EFFICIENCY, ""),
        ("GPU util (%)", ColumnKind.SHARE, ""),
        ("images/s", ColumnKind.RATE, "images"),
        ("Throughput (samples per second)", ColumnKind.RATE, "samples"),
        ("PT QPS (seq/s)", ColumnKind.RATE, "seq"),
        ("TFLOPS", ColumnKind.RATE, "flops"),
        ("GFLOP/s", ColumnKind.RATE, "flops"),
        ("GB/s", ColumnKind.RATE, "bytes"),
        ("GFLOP", ColumnKind.SIZE, "flops"),
        ("FLOPs (G)", ColumnKind.OTHER, ""),
        ("Batch Size", ColumnKind.SIZE, "batch"),
        ("n", ColumnKind.SIZE, "n"),
        ("GPUs", ColumnKind.DEVICES, "gpus"),
        ("Nodes", ColumnKind.DEVICES, "nodes"),
        ("# threads", ColumnKind.DEVICES, "threads"),
        ("Price (USD/h)", ColumnKind.PRICE, ""),
        ("cost($/1M tokens)", ColumnKind.COST, ""),
        ("Std (ms)", ColumnKind.OTHER, ""),
        ("Operation", ColumnKind.OTHER, ""),
    ],
)
def test_a_header_states_the_quantity_of_its_column(header, kind, unit):
    column = heading(header)
    assert (column.kind, column.unit) == (kind, unit)


@pytest.mark.parametrize(
    ("header", "statistic", "subject"),
    [
        ("p99 latency (ms)", "p99", set()),
        ("95% Latency", "p95", set()),
        ("Avg. CPU time (s)", "mean", {"cpu", "avg."}),
        ("Throughput - mixed precision (img/s)", "", {"mixed", "precision"}),
    ],
)
def test_a_header_states_statistic_and_quantity(header, statistic, subject):
    column = heading(header)
    assert column.statistic == statistic and column.subject >= subject - {"avg."}


FORMS = {
    "ascii": "before\n+---+---+\n| Op | cpu (s) | gpu (s) |\n|:--|--:|:-:|\n| a | 1.00 | 0.50 |\n+==+==+\n| Total | 1.00 | 0.50 |\n+--+\nafter",
    "markdown": "# A title\n\n| Op | cpu (s) | gpu (s) |\n| --- | --- | --- |\n| **a** | `1.00` | 0.50 |\n| Total | 1.00 | 0.50 |\n",
    "without outer pipes": "Op | cpu (s) | gpu (s)\n--- | --- | ---\na | 1.00 | 0.50\nTotal | 1.00 | 0.50\n",
    "psql": " Op | cpu (s) | gpu (s)\n----+---------+--------\n a  |  1.00   |  0.50\n Total | 1.00 | 0.50\n",
    "drawn": "┏━━━┳━━┓\n┃ Op ┃ cpu (s) ┃ gpu (s) ┃\n┡━━━╇━━┩\n│ a │ 1.00 │ 0.50 │\n│ Total │ 1.00 │ 0.50 │\n└───┴──┘",
    "rst grid": "+-------+---------+---------+\n| Op    | cpu (s) | gpu (s) |\n+=======+=========+=========+\n| a     | 1.00    | 0.50    |\n+-------+---------+---------+\n| Total | 1.00    | 0.50    |\n+-------+---------+---------+\n",
    "rst simple": "=====  =======  =======\nOp     cpu (s)  gpu (s)\n=====  =======  =======\na      1.00     0.50\nTotal  1.00     0.50\n=====  =======  =======\n",
    "html": "<p>x</p><table><tr><th>Op<th>cpu (s)<th>gpu (s)</tr><tr><td>a</td><td>1.00</td><td><b>0.50</b></td></tr><tr><td>Total<td>1.00<td>0.50</table>",
    "spaces": "Op     cpu (s)  gpu (s)\na         1.00     0.50\nTotal     1.00     0.50\n",
    "csv": "Op,cpu (s),gpu (s)\na,1.00,0.50\n\nTotal,1.00,0.50\n",
    "semicolons": "Op;cpu (s);gpu (s)\r\n\"a\";1.00;0.50\r\nTotal;1.00;0.50\r\n",
    "decimal commas": "Op;cpu (s);gpu (s)\na;1,00;0,50\nTotal;1,00;0,50\n",
    "tabs": "Op\tcpu (s)\tgpu (s)\na\t1.00\t0.50\nTotal\t1.00\t0.50",
    "with units": "Op,cpu time,gpu (s)\na,1.00 s,0.50 s\nTotal,1.00 s,0.50\n",
    "with errors": "| Op | cpu (s) | gpu (s) |\n|--|--|--|\n| a | 1.00 ± 0.05 | 0.50 ± 0.01 |\n| Total | 1.00 | 0.50 |\n",
}  # fmt: skip


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_one_table_in_all_its_forms(text):
    (table,) = read_tables(text, "f")
    (row,) = table.rows
    assert row.name == "a" and [total.name for total in table.sums] == ["Total"]
    assert [(p.value, p.step) for p in row.cells[1:]] == [(1, 0.01), (0.5, 0.01)]


@pytest.mark.parametrize(
    ("rows", "summing"),
    [
        ("Total;15.0", ["Total"]), ("[Geo mean];4.93", ["[Geo mean]"]), ("Overall average;5.0", ["Overall average"]),
        ("sum;15.0", ["sum"]), ("Mean;5.0\nMedian;5.0", ["Mean", "Median"]), ("sum;0.5", []), ("median;9.0", []),
        ("Median Filter;5.0", []), ("Median (3×3);9.0", []), ("Geometric Transform;5.0", []), ("mean;5.0\nd;5.0", []),
        ("Average;5.0\nd;5.0", []),
    ],
)  # fmt: skip
def test_a_summary_row_needs_the_name_the_place_and_the_value_of_a_sum(rows, summing):
    (table,) = read_tables(f"op;t (s)\na;4.0\nb;5.0\nc;6.0\n{rows}", "f")
    assert [row.name for row in table.sums] == summing
    measured = [row.name for row in table.rows]
    assert measured[:3] == ["a", "b", "c"] and "Average" not in measured and not set(measured) & set(summing)


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("12,345", 12345), ("1,234.5", 1234.5), ("1 234", 1234), ("1'234.5", 1234.5), ("7.91 ± 0.05", 7.91),
        ("7.91 +/- 0.05 ms", 7.91), ("~12", 12), ("≈ 3.5x", 3.5), ("×2.4", 2.4), ("45 %", 45), ("$1.20", 1.2),
        ("0.871M", 871000), ("1310k", 1310000), ("1.86e+05", 186000), ("4,123.1 (1.0)", 4123.1), (".5", 0.5),
        ("706222 ns/op", 706222), ("-5", -5), ("2h 15m", 8100), ("20:04:48", 72288), ("0m1.783s", 1.783),
        ("4096x4096", None), ("3×3", None), ("OOM", None), ("<0.01", None), ("10–20", None), ("v2", None), ("1e999", None), ("", None),
    ],
)  # fmt: skip
def test_numbers_as_people_write_them(cell, value):
    (found,) = readings([cell], lasting=True)
    assert (found and float(found.number)) == value


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["0,0211", "1,5"], [0.0211, 1.5]),
        (["1.234,5", "0,1"], [1234.5, 0.1]),
        (["1,234", "2,345"], [1234, 2345]),
        (["1,234", "0.5"], [1234, 0.5]),
    ],
)
def test_a_column_shows_the_meaning_of_its_commas(cells, values):
    assert [float(found.number) for found in readings(cells)] == values


@pytest.mark.parametrize(
    ("cells", "steps"),
    [
        (("0.50", "0.01"), (0.01, 0.01)),
        (("0.5", "0.01"), (0.1, 0.01)),  # rounded to one digit each, or to two places with a zero lost
        (("0.0123", "1.23", "27.2"), (0.0001, 0.01, 0.1)),
        (("12", "100"), (1, 1)),
        (("~10", "20"), (2, 1)),
        (("2h 15m", "1h 02m"), (60, 60)),
    ],
)
def test_the_step_of_the_last_digit_is_inferred(cells, steps):
    (table,) = read_tables("op;time (s)\n" + "".join(f"r{i};{c}\n" for i, c in enumerate(cells)), "f")
    assert [row.cells[1].step for row in table.rows] == pytest.approx(steps)


def test_a_table_of_measures_in_lines_is_turned():
    (table,) = read_tables("| | A | B |\n|-|-|-|\n| Latency (ms) | 5 | 10 |\n| images/s | 200 | 100 |\n", "f")
    assert [row.name for row in table.rows] == ["A", "B"]
    assert [column.kind for column in table.columns[1:]] == [ColumnKind.TIME, ColumnKind.RATE]


def test_two_header_lines_are_joined():
    text = "| | CPU | | GPU | |\n|-|-|-|-|-|\n| n | p50 (ms) | p99 (ms) | p50 (ms) | p99 (ms) |\n| 1 | 1 | 2 | 3 | 4 |\n| 2 | 1 | 2 | 3 | 4 |\n"
    (table,) = read_tables(text, "f")
    assert [c.header for c in table.columns[1:3]] == ["CPU p50 (ms)", "CPU p99 (ms)"]
    assert [c.statistic for c in table.columns[1:]] == ["p50", "p99", "p50", "p99"]


def test_rows_have_names_of_their_own():
    (table,) = read_tables("op,device,time (s)\nmatmul,cpu,2\nmatmul,gpu,1\n", "f")
    assert [row.name for row in table.rows] == ["matmul, cpu", "matmul, gpu"]
    (table,) = read_tables("n,time (s)\n10,2\n20,1\n", "f")
    assert [row.name for row in table.rows] == ["n=10", "n=20"]


def test_cells_lose_the_marks_that_move_or_hide_text():
    (table,) = read_tables("op,time (s)\na\u202eb\u200bc\u2066d\x1b[2J,1\n", "f")
    assert not set(table.rows[0].name) & set("\u202e\u200b\u2066\x1b") and table.rows[0].name[0] == "a"


def test_every_table_of_a_file_is_read_and_omissions_are_reported():
    two = "| op | t (s) |\n|--|--|\n| a | 1 |\n\n| who | what |\n|--|--|\n| b | c |\n\n| op | images/s | Points |\n|--|--|--|\n| b | 1 | 9 |\n"
    first, text, second = read_tables(two, "f")
    assert first.skipped == () and second.skipped == ("column 'Points' is not judged",)
    assert text.unjudged == "no column of times, rates, speedups or prices among 'who', 'what'"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "f has no table: it must be CSV, Markdown"),
        ("hello", "f has no table"),
        ("op,time (s)\n", "f has no table"),
        ("op,points\na,1\n", "f has no column of times, rates, speedups or prices among 'op', 'points'"),
    ],
)
def test_an_unreadable_table_is_reported_in_one_sentence(text, words):
    with pytest.raises(GridbenchError, match=words) as caught:
        read_tables(text, "f")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


CELLS = st.one_of(
    st.floats(allow_nan=True).map(str),
    st.integers(-(10**30), 10**30).map(str),
    st.sampled_from(
        ["", "-", "OOM", "1.50 ms", "2x", "1e-300", "1e300", "1e999", "1e308", "4e-324", "0", "0.00", "batch=0", "0x0",
         "9" * 250, "~1", "1 ± 1e999", "100 %", "1:00:00", "g5.8xlarge", "8x H100", "Total", "1,2", "matmul n=0"]
    ),
    st.text(max_size=8),
)  # fmt: skip
HEADERS = st.sampled_from(
    ["op", "cpu (s)", "gpu (ms)", "speedup", "gpu speedup (%)", "images/s", "batch", "n", "flops", "bytes", "GFLOP/s",
     "GB/s", "time", "notes", "GPUs", "efficiency", "p50 (ms)", "p99 (ms)", "min (ms)", "$/h", "spot $/h", "vCPUs",
     "Change", "util %", "total (s)", "4 GPUs", "1 GPU"]
)  # fmt: skip


@given(
    header=st.lists(HEADERS, min_size=2, max_size=8, unique=True),
    rows=st.lists(st.tuples(*[CELLS] * 8), min_size=1, max_size=6),
    drawn=st.booleans(),
)
@example(
    header=["op", "cpu (s)", "gpu (ms)"],
    rows=[("a", "4e-154", "1e300", *[""] * 5), ("b", "1", "1", *[""] * 5)],
    drawn=False,
)
def test_any_table_is_judged_or_refused_in_a_sentence(header, rows, drawn, known):
    lines = [header, *(row[: len(header)] for row in rows)]
    if drawn:
        text = "\n".join("|".join(line) for line in [header, ["--"] * len(header), *lines[1:]])
    else:
        buffer = io.StringIO()
        csv.writer(buffer).writerows(lines)
        text = buffer.getvalue()
    try:
        tables = read_tables(text, "f")
    except GridbenchError as error:
        assert "\n" not in str(error)
        return
    for machine in (None, known.gpus["l4"]):
        for flaw in (flaw for table in tables for flaw in review(table, machine, known).findings):
            assert flaw.text.isprintable() or not flaw.text.isascii()


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text):
    try:
        for table in read_tables(text, "f"):
            review(table)
    except GridbenchError:
        return


@given(st.text(alphabet="<>/tabletrdh |-+=\n12.sx\"'", max_size=120))
def test_any_markup_is_read_or_refused(text):
    try:
        for table in read_tables(f"<table>{text}", "f"):
            review(table)
    except GridbenchError:
        return
