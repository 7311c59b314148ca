"""Data of commit d1e4668 is read as it was then: a run, nights with a filed ticket, a bucket.

That commit's code wrote `earlier.tar.gz`, from records of schema 3 rewritten to schema 5, except one measured
run. `runs`: that real run and two runs of known times. `nights`: sixteen nights, the last two slower, one of
them confirmed and judged. `bucket`: what its results store sends to a bucket. `expected`: the output of its
commands.
"""

import json
import math
import re
import tarfile
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
from prefect.filesystems import LocalFileSystem
from typer.testing import CliRunner

from gridbench.main import app
from tasks.findings.answer import MOST_LINES, MOST_WORDS
from tasks.gather import judged
from tasks.store.bucket import Bucket
from tasks.store.store import Store
from tasks.store.sync import fetch_history

GOOD, SLOW = "20261101-020000-nightly-0000", "20261102-020000-nightly-0001"
REAL = "20261126-222224-kept-a345"
SLOW_NIGHT, LAST_NIGHT = "20261115-020000-nightly-000e", "20261116-020000-nightly-000f"


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("earlier")
    with tarfile.open(Path(__file__).with_name("earlier.tar.gz")) as archive:
        archive.extractall(folder, filter="data")
    return folder


def gridbench(*words):
    result = CliRunner().invoke(app, [*map(str, words)])
    return result.exit_code, result.output


# Intervals of totals are made of rounds since then, not of independent cells.
BOUND_OF_TOTAL = re.compile(r"\$\.(offers|totals|findings\.offers)\b.*\.(low|high)$")


def assert_holds(now, before, place="$", rel_tol=1e-9):
    """Check that everything of before is unchanged now; new keys are allowed."""
    if isinstance(before, dict):
        for key, value in before.items():
            assert key in now, f"{place}.{key} is gone"
            assert_holds(now[key], value, f"{place}.{key}", rel_tol)
    elif isinstance(before, list) and before and all(isinstance(value, str) for value in before):
        assert now, place  # sentences can be reworded, merged, and moved to another key
    elif isinstance(before, list):
        assert len(now) == len(before), place
        for number, (new, old) in enumerate(zip(now, before, strict=True)):
            assert_holds(new, old, f"{place}[{number}]", rel_tol)
    elif isinstance(before, float) and BOUND_OF_TOTAL.match(place):
        assert isinstance(now, float), f"{place}: {now} was {before}"
    elif isinstance(before, float):
        assert math.isclose(now, before, rel_tol=rel_tol), f"{place}: {now} was {before}"
    elif not isinstance(before, str):  # sentences can be reworded, numbers must stay
        assert now == before, f"{place}: {now} was {before}"


def test_a_real_run_is_read_with_every_record(earlier):
    store = Store.open(earlier / "runs", REAL)
    records, problems = store.records()
    assert not problems and len(records) == 8 and {str(record.verdict) for record in records} == {"noisy"}
    for record in records:
        path = store.folder / "records" / record.hardware / record.case.id / f"{record.repeat}.json"
        written = json.loads(path.read_text())
        assert_holds(json.loads(record.to_json()), written)
    code, text = gridbench("show", REAL, "--results", earlier / "runs")
    assert code == 0 and text.count("matmul/n=") == 8 and text.count("noisy") >= 8
    found = judged(records, store)
    assert 1 <= len(found.answer) <= MOST_LINES and found.caveats
    assert all(len(line.split()) <= MOST_WORDS for line in (*found.answer, found.caveat_line)), found.answer


@pytest.mark.parametrize("run", [REAL, SLOW])
def test_a_report_of_earlier_data_has_its_earlier_numbers(earlier, run):
    folder = earlier / "runs" / run
    before = json.loads(
        (folder / "benchmark_results.json" if run == REAL else earlier / "expected/slow_run.json").read_text()
    )
    code, text = gridbench("report", run, "--results", earlier / "runs")
    assert code == 0, text
    assert_holds(json.loads((folder / "benchmark_results.json").read_text()), before)


def test_a_table_of_earlier_data_has_its_earlier_columns_and_numbers(earlier):
    gridbench("report", SLOW, "--results", earlier / "runs")
    before = pd.read_csv(earlier / "expected/slow_run.csv")
    now = pd.read_csv(earlier / "runs" / SLOW / "comparison.csv")
    numbers = before.select_dtypes("number").columns
    pd.testing.assert_frame_equal(now[numbers], before[numbers])
    assert set(before.columns) <= set(now.columns)


def test_a_run_gate_of_earlier_data_gives_its_earlier_verdict(earlier, tmp_path):
    junit = tmp_path / "gate.xml"
    command = ("gate", SLOW, "--against", GOOD, "--run-effect", "0%", "--junit", junit)
    code, text = gridbench(*command, "--results", earlier / "runs")
    assert code == 1 and "+10.0 % (+9.1 to +10.9)" in text
    cases = [
        [
            (case.get("name"), [child.tag for child in case])
            for case in ElementTree.parse(path).iter("testcase")
        ]
        for path in (junit, earlier / "expected/gate.xml")
    ]
    assert cases[0] == cases[1]


def test_the_history_of_a_case_is_the_same(earlier, tmp_path):
    code, text = gridbench(
        "history", "matmul", "--all", "--csv", tmp_path / "now.csv", "--results", earlier / "nights"
    )
    assert code == 0, text
    before = pd.read_csv(earlier / "expected/history.csv")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "now.csv")[before.columns], before)


def test_a_site_over_the_nights_has_every_page(earlier, tmp_path):
    code, text = gridbench("site", "--results", earlier / "nights", "--output", tmp_path / "site")
    assert code == 0, text
    page = (tmp_path / "site" / "index.html").read_text()
    assert all(night.name in page for night in (earlier / "nights").iterdir())


def test_a_ticket_of_an_earlier_version_is_known_to_the_next_night(earlier):
    from tasks.regressions.gate_file import read_verdicts
    from tasks.regressions.night import judge_night
    from tasks.regressions.tickets import verdicts_of

    (ticket,) = read_verdicts(earlier / "nights" / SLOW_NIGHT).tickets
    assert ticket.cases == ("matmul/n=5000/fp32",) and math.isclose(ticket.share, 0.19728413914268528)
    night = judge_night(earlier / "nights", LAST_NIGHT)
    assert not night.to_confirm and not verdicts_of(night).tickets


def test_a_bucket_is_fetched_from(earlier, tmp_path):
    bucket = Bucket("local-file-system/kept", LocalFileSystem(basepath=str(earlier / "bucket")))
    fetch_history(bucket, tmp_path / "here")
    store = Store.open(tmp_path / "here", GOOD)
    assert store.plan.run == GOOD and (store.folder / "results.parquet").exists()
