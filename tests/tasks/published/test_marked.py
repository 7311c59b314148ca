import pytest

from tasks.published.read import read_tables
from tasks.published.table import ColumnKind

MARKED = {
    "pytest-benchmark": """
------------------------------- benchmark: 2 tests -------------------------------
Name (time in us)      Min               Max              StdDev            OPS
----------------------------------------------------------------------------------
test_a             4.1250 (1.0)     61.3330 (1.0)     0.9861 (1.0)     223099.8 (1.0)
test_b             9.8330 (2.38)    88.9170 (1.45)    1.4032 (1.42)     94328.9 (0.42)
----------------------------------------------------------------------------------
""",
    "benchstat": """
goos: linux
                 │   old.txt    │                new.txt                 │
                 │    sec/op    │    sec/op     vs base                  │
test_a             4.125µ ±   1%   61.333µ ± ∞ ¹   -2.20% (p=0.017 n=6+5)
test_b             9.833µ ±  17%   88.917µ ± 2%         ~ (p=0.394 n=6)
¹ need >= 6 samples for confidence interval at level 0.95
""",
    "nccl-tests": """
# nThread 1 nGpus 8 iters: 20
#
#                       out-of-place
#       type      time    other time    algbw
#                 (us)        (us)    (GB/s)
      test_a     4.125      61.333     12.16
      test_b     9.833      88.917     44.76
# Avg bus bandwidth    : 95.3
""",
}


@pytest.mark.parametrize("text", MARKED.values(), ids=MARKED)
def test_headers_with_bars_signs_and_titles_of_common_tools(text):
    (table,) = read_tables(text, "f")
    times = table.of(ColumnKind.TIME)
    assert [row.name for row in table.rows] == ["test_a", "test_b"] and len(times) == 2
    values = [row.cells[i].value for row in table.rows for i in times if row.cells[i]]
    assert values == pytest.approx([4.125e-6, 61.333e-6, 9.833e-6, 88.917e-6])


def test_comments_titles_and_bars_of_other_forms_stay():
    for text in (
        "# of a box\n# in two lines\nop,cpu (s)\na,1.00\nb,2.00",
        "# cpu: Xeon  cores: 8  kernel: 6.1\n# run on  host x  today\nop,cpu (s)\na,1.00\nb,2.00",
        "op | cpu (s)\n--- | ---\na | 1.00\nb | 2.00",
        "│ op │ cpu (s) │\n│ a  │ 1.00    │\n│ b  │ 2.00    │\nTable 1: times",
        "┌────┬─────────┐\n│ op │ cpu (s) │\n├────┼─────────┤\n│ a  │ 1.00    │\n│ b  │ 2.00    │\n└────┴─────────┘\n2 rows",
    ):
        (table,) = read_tables(text, "f")
        assert [row.name for row in table.rows] == ["a", "b"] and table.of(ColumnKind.TIME) == [1]
