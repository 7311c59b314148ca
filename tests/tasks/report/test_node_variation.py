import json
import re

import pytest

from tasks.findings.compare import compare
from tasks.report.artifacts import stage_tables
from tasks.report.files.benchmark_results import benchmark_json
from tasks.report.grid import grid_of
from tasks.report.html.page import report_html
from tasks.report.info import RunInfo
from tasks.report.text.comparison import full_text
from tests.tasks.examples.records import MATMUL, machine, repeats
from tests.tasks.examples.reports import arranged
from workloads.harness.records.finite_json import to_json

RUN = RunInfo("a-run", "quick", "2026-07-24T02:00:11+00:00", 1, "0.1.0")
FACTORS = {"my-box.a": 1.0, "my-box.b": 1.3, "my-box.<c>": 1.004}


@pytest.fixture(scope="module")
def made():
    records = [r for name, f in FACTORS.items() for r in repeats([f, 1.001 * f, 0.999 * f], MATMUL, name)]
    return records, compare(records, [machine(name, shape="my-box") for name in FACTORS], "my-box.a")


def shown(page):
    part = page[
        page.index('id="node-variation"') : page.index("</section>", page.index('id="node-variation"'))
    ]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", part))


def test_the_page_has_a_table_with_the_straggler(made):
    page = report_html(*arranged(*made), RUN)
    text = shown(page)
    assert text.index("my-box.a") < text.index("my-box.&lt;c&gt;") < text.index("my-box.b")
    assert "▼ straggler" in text and text.count("straggler") == 1 and "fastest" in text
    assert 'href="#node-variation"' in page and "<c>" not in page[: page.index('id="data"')]
    assert "straggler" in page[page.index('id="answer"') : page.index('id="machines"')]


def test_a_page_without_boxes_has_no_such_table(made):
    records, _ = made
    page = report_html(
        records, grid_of(records, compare(records, [machine(name) for name in FACTORS], "my-box.a")), RUN
    )
    assert 'id="boxes"' not in page and 'href="#node-variation"' not in page


def test_two_boxes_cannot_show_node_variation(made):
    two = [record for record in made[0] if record.hardware != "my-box.<c>"]
    machines = [machine(name, shape="my-box") for name in ("my-box.a", "my-box.b")]
    text = shown(report_html(two, grid_of(two, compare(two, machines, "my-box.a")), RUN))
    assert "with two machines" in text and "straggler" not in text


def test_the_text_has_it(made):
    text = full_text(*arranged(*made))
    assert "Node variation:" in text and re.search(r"\| my-box \| my-box\.b +\| 1\.29.*straggler", text)


def test_programs_find_it_in_the_json(made):
    found = json.loads(to_json(benchmark_json(*arranged(*made), RUN)))
    (one,) = found["siblings"]
    assert (one["shape"], one["cases"]) == ("my-box", 1) and 1.29 < one["spread"]["low"] < 1.3
    assert [(b["hardware"], b["straggler"]) for b in one["boxes"]][-1] == ("my-box.b", True)
    assert {row["shape"] for row in found["hardware"]} == {"my-box"}


def test_the_ui_has_a_table_of_it(made):
    _, rows = stage_tables(made[1])["bench-siblings"]
    assert [row["Standing"] for row in rows] == ["fastest", "–", "straggler"]
    assert (rows[2]["Machine"], rows[2]["Kind"]) == ("my-box.b", "my-box")
    assert "×" in rows[2]["Slowest over fastest"]
