import time
from pathlib import Path

import pytest
import yaml

from tasks.errors import GridbenchError
from tasks.published.read import read_tables
from tasks.published.review import review

FILE = Path(__file__).parent / "corpus" / "faults.yaml"
ENTRIES = {entry["kind"]: entry for entry in yaml.safe_load(FILE.read_text())}


@pytest.mark.parametrize("kind", ENTRIES)
def test_each_kind_of_table_is_judged_right(kind, known):
    entry = ENTRIES[kind]
    if entry.get("refused"):
        with pytest.raises(GridbenchError, match="no column of times"):
            read_tables(entry["text"], "f")
        return
    tables = read_tables(entry["text"], "f")
    found = [flaw for table in tables for flaw in review(table, None, known).findings]
    said, asked = ([flaw.text for flaw in found if flaw.doubt is doubt] for doubt in (False, True))
    columns = {column.header: column.kind.value for table in tables for column in table.columns}
    assert entry.get("columns", {}).items() <= columns.items()
    assert any(entry["says"] in text for text in said) if "says" in entry else not said
    assert any(entry["asks"] in text for text in asked) if "asks" in entry else True
    assert not (entry.get("silent") and asked)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("op,a (s)\n" + "x,1\n" * 30_000, "at most 5000"),
        (",".join(f"c{n}" for n in range(65_000)) + "\n" + "1," * 64_999 + "1\n", "at most 5000 of 200"),
        ("\n".join(f"{n}  {n}  {n}" for n in range(30_000)), "no table"),
        ("[" * 300_000, "no table"),
        ("a  b\n" + "1 " * 200_000 + "\n", "at most 5000 of 200"),
        ("<table>" + "<td rowspan=50 colspan=50>1" * 20_000, "no table"),
    ],
)
def test_a_table_that_is_too_large_is_refused_within_three_seconds(text, words):
    begun = time.process_time()
    with pytest.raises(GridbenchError, match=words):
        read_tables(text, "f")
    assert time.process_time() - begun < 3


def test_a_table_of_thousands_of_rows_is_judged_within_three_seconds(known):
    rows = "".join(
        f"model_{n},{n % 7 + 1},{100 + n / 7:.2f},{(n % 7 + 1) * 1000 / (100 + n / 7):.2f},{n % 9}.5\n"
        for n in range(1, 1629)
    )
    (table,) = read_tables("model,batch_size,step_time_ms,samples_per_sec,param_count\n" + rows, "f")
    begun = time.process_time()
    assert not [flaw for flaw in review(table, None, known).findings if not flaw.doubt]
    assert time.process_time() - begun < 3


def _lines(count, *columns):
    return "\n".join(",".join(column(n) for column in columns) for n in range(1, count + 1))


def _wave(n):
    return f"{1 + n * 7919 % 9973 / 1000:.3f}"


SHAPES = {
    "times": ("n,batch," + ",".join(f"t{n} (ms)" for n in range(14)), (3000, str, lambda n: str(n % 7), *[_wave] * 14)),
    "speedups": ("op," + ",".join(f"m{n} (ms),speedup m{n}" for n in range(60)), (300, str, *[_wave] * 120)),
    "prices": ("instance,region,$/h,spot $/h", (3000, lambda n: "g5.xlarge", lambda n: f"us-east-{n % 3}", *[_wave] * 2)),
    "labels": ("name,gpus," + ",".join(f"c{n}" for n in range(30)) + ",images/s",
               (2500, lambda n: f"m{n % 50}", lambda n: str(2 ** (n % 4)), *[lambda n: str(n % 9)] * 30, _wave)),
    "costs": ("run,gpus,hours (h),$/h,tok/s,img/s,cost ($),cost ($/1M tokens),MFU,TFLOPS",
              (3000, str, lambda n: "8", *[_wave] * 8)),
    "peaks": ("gpu,op,n,time (ms),TFLOP/s,GB/s", (3000, lambda n: "A100", lambda n: f"gemm {n}", str, *[_wave] * 3)),
}  # fmt: skip


@pytest.mark.chaos
@pytest.mark.alone
@pytest.mark.parametrize("shape", SHAPES)
def test_large_tables_of_every_shape_are_judged_within_three_seconds(shape, known):
    header, (count, *columns) = SHAPES[shape]
    begun = time.process_time()
    for table in read_tables(f"{header}\n{_lines(count, *columns)}\n", "f"):
        review(table, None, known)
    assert time.process_time() - begun < 3
