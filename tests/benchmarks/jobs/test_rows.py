import math

from tests.benchmarks.jobs.rows import JobRow, add, kept, report


def row(script, seconds, low_s, high_s, real_s, **more):
    return JobRow(script, "a kind", "8 epochs", seconds, low_s, high_s, real_s, 61.0, "ok", **more)


ROWS = [
    row("held", 150.0, 140.0, 160.0, 160.0, others=(0.02, 0.51), slower=0.034),
    row("missed", 150.0, 140.0, 160.0, 200.0),
    row("unmeasured", None, None, None, 150.0),
    row("failed", 150.0, 140.0, 160.0, None, failed="exit code 1: no data"),
]


def test_a_real_time_counts_if_it_is_in_the_interval():
    assert [row.inside for row in ROWS] == [True, False, False, False]
    assert ROWS[1].ratio == 0.75 and all(math.isnan(row.ratio) for row in ROWS[2:])
    text = report(ROWS)
    assert text.splitlines()[-1] == "1 of 4 real times inside of the interval (goal 9 of 10)"
    held, missed, unmeasured, failed = (line.split("  ") for line in text.splitlines()[2:6])
    assert "yes" in held and "no" in missed and "0.750" in missed and "nan" in unmeasured
    assert "exit code 1: no data" in failed
    assert [word.strip() for word in held if word.strip()][-2:] == ["0.02 / 0.51", "+3.4%"]


def test_rows_are_kept_as_they_come(tmp_path):
    file = tmp_path / "rows.jsonl"
    assert kept(file) == []
    for each in ROWS:
        add(file, each)
    assert report(kept(file)) == report(ROWS)
