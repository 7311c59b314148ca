import json
import sys

import pandas as pd
import pytest

import tasks.findings
from tasks.findings.compare import compare, kinds
from tasks.report.artifacts import stage_tables
from tasks.report.info import RunInfo
from tasks.report.write import write_report
from tests.tasks.examples.records import MATMUL, machine, repeats

RUN = RunInfo("a-run", "quick", "2026-07-24T02:00:11+00:00", 1, "0.1.0")
SOURCE = '''
from dataclasses import dataclass

from tasks.results.finding import Finding, Results
from tasks.results.table import Column, Quantity, Table
from tasks.results.values import Estimate


@dataclass(frozen=True, slots=True)
class Colours(Finding):
    """The colour of each machine."""

    name = "colours"
    title = "Colours of <machines>"
    times: tuple[tuple[str, Estimate], ...]

    @classmethod
    def find(cls, results: Results) -> "Colours":
        """Take the time of each cell."""
        return cls(tuple((s.cell.hardware, s.compute_s) for s in results.summaries if s.compute_s))

    def table(self) -> Table:
        """Return a row a machine."""
        columns = (Column("Machine", Quantity.MACHINE), Column("Shade", Quantity.TIME), Column("Colour"))
        return Table(columns, tuple((name, time, "ultramarine") for name, time in self.times))

    def observations(self) -> tuple[str, ...]:
        """Return a sentence."""
        return (f"{len(self.times)} machines are ultramarine.",)
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "colours.py").write_text(SOURCE, "utf-8")
    monkeypatch.setattr(tasks.findings, "__path__", [*tasks.findings.__path__, str(tmp_path)])
    kinds.cache_clear()
    yield tmp_path
    kinds.cache_clear()
    sys.modules.pop("tasks.findings.colours", None)


def test_a_file_is_all_that_a_finding_takes(folder, tmp_path):
    records = [*repeats([1.0, 1.01, 0.99], MATMUL, "a"), *repeats([2.0, 2.01, 1.99], MATMUL, "b")]
    comparison = compare(records, [machine("a"), machine("b")], "a")
    page = write_report(tmp_path, records, comparison, RUN).read_text("utf-8")
    section = page[page.index('id="findings"') :]
    assert "Colours of &lt;machines&gt;" in section and section.count("ultramarine</span>") == 2
    assert 'href="#findings"' in page and "2 machines are ultramarine." in page
    text = (tmp_path / "comparison.txt").read_text()
    assert "| Machine | Shade" in text and "| ultramarine |" in text
    found = json.loads((tmp_path / "benchmark_results.json").read_text())["findings"]["colours"]
    assert [row[0] for row in found["rows"]] == ["a", "b"] and found["rows"][1][1]["low"] < 2.0
    assert found["columns"][1] == {"title": "Shade", "quantity": "time", "unit": "s"}
    table = pd.read_csv(tmp_path / "findings" / "colours.csv")
    assert list(table) == ["Machine", "Shade (s)", "Shade (s) low", "Shade (s) high", "Colour"]
    assert (
        table["Shade (s)"].tolist() == pytest.approx([1.0, 2.0], rel=0.01) and table["Shade (s) low"][1] < 2.0
    )
    title, rows = stage_tables(comparison)["bench-colours"]
    assert title.startswith("Colours") and rows[0] == {
        "Machine": "a",
        "Shade": rows[0]["Shade"],
        "Colour": "ultramarine",
    }
    assert rows[0]["Shade"] == "1000 ms (975–1025)"


def test_names_and_artifacts_are_each_there_once():
    found = kinds()
    assert len(found) >= 9 and "colours" not in {kind.name for kind in found}
    assert (
        len({kind.name for kind in found})
        == len({kind.artifact or kind.name for kind in found})
        == len(found)
    )


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.name)
def test_every_finding_says_nothing_of_nothing(kind):
    comparison = compare([], [machine("a")], "a")
    found = comparison.finding(kind)
    assert found.table() is None and found.details() == found.observations() == ()
    assert all(value == [] for value in found.published().values())
