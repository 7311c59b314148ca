import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from tasks.findings.two_runs import ComparedRun
from tasks.regressions.run_gate import compare_cells
from tasks.report.files.junit import junit_xml
from tests.tasks.examples.records import ENVIRONMENT, IMAGES, MATMUL, failed, machine, record
from workloads.harness.records.case import Case, Cell
from workloads.harness.records.parts import Control
from workloads.harness.records.record import Verdict

SMALL, LARGE = Case.of("matmul", {"n": 64}), Case.of("matmul", {"n": 8000})
CALM = (1.0, 1.004, 0.997)
# Required and other attributes, and which elements are inside, in which order: what Ant's JUnit task and
# junit-10.xsd of Jenkins' xUnit plugin have in common.
SCHEMA = {
    "testsuites": ((), ("name", "time", "tests", "failures", "errors"), "(testsuite )*"),
    "testsuite": (
        ("name", "tests", "failures", "errors"),
        ("skipped", "time", "timestamp", "hostname"),
        "properties (testcase )*(system-out )?(system-err )?",
    ),
    "properties": ((), (), "(property )*"),
    "property": (("name", "value"), (), ""),
    "testcase": (("name",), ("classname", "time"), "((skipped|error|failure) )?(system-out )?"),
    "failure": (("type", "message"), (), ""),
    "skipped": (("message",), (), ""),
    "system-out": ((), (), ""),
}
TIME = r"(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]*)?"


def times(name, case, factor=1.0, hardware="cpu-box", number=3, **changes):
    changes = {"environment": ENVIRONMENT | {"commit": name[0] * 40, "hostname": f"box-{name}"}} | changes
    return [record(factor * s, case, hardware, i, run=name, **changes) for i, s in enumerate(CALM[:number])]


def of(name, *records):
    return ComparedRun(name, tuple(records), (machine("cpu-box"), machine("gpu-box")), "cpu-box")


@pytest.fixture
def found():
    now = of(
        "now",
        *times("now", MATMUL, 1.1),
        *times("now", SMALL, 1e-4, number=1),
        replace(failed(Verdict.WRONG, 'it is "<0>" & \x1b[31mred'), run="now", case=IMAGES),
        *times("now", MATMUL, hardware="gpu-box"),
    )
    before = of(
        "before",
        *times("before", MATMUL),
        *times("before", SMALL, 1e-4),
        *times("before", IMAGES),
        *times("before", LARGE),
        *times("before", MATMUL, hardware="gpu-box"),
    )
    cells = {one.cell for one in (*now.records, *before.records)} - {Cell("cpu-box", LARGE)}
    return compare_cells(now, before, cells)


def conforms(element):
    required, others, inside = SCHEMA[element.tag]
    assert {*required} <= {*element.attrib} <= {*required, *others}, element.attrib
    assert re.fullmatch(inside, "".join(f"{child.tag} " for child in element)), [c.tag for c in element]
    assert re.fullmatch(TIME, element.get("time", "")) or "time" not in element.attrib
    for name in ("tests", "failures", "errors", "skipped"):
        assert element.get(name, "0").isdigit()
    for child in element:
        conforms(child)


def test_junit_xml_conforms_to_its_schema(found):
    text = junit_xml(found)
    assert text.startswith('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites ')
    conforms(ElementTree.fromstring(text.encode()))


def test_a_suite_has_the_counts_of_one_machine(found):
    root = ElementTree.fromstring(junit_xml(found).encode())
    suites = {suite.get("name"): suite for suite in root}
    assert root.attrib == {"name": "now against before", "tests": "5", "failures": "2", "errors": "0"}
    counts = {name: [suites[name].get(n) for n in ("tests", "failures", "skipped")] for name in suites}
    assert counts == {"cpu-box": ["4", "2", "2"], "gpu-box": ["1", "0", "0"]}
    for suite in suites.values():
        assert int(suite.get("failures")) == len(suite.findall("testcase/failure"))
        assert int(suite.get("skipped")) == len(suite.findall("testcase/skipped"))
    said = {p.get("name"): p.get("value") for p in suites["cpu-box"].iterfind("properties/property")}
    assert (said["run"], said["against"], said["commit"]) == ("now", "before", "n" * 40)
    assert said["against commit"] == "b" * 40 and said["hostname"] == "box-now"
    assert said["machine"] == said["against machine"] and len(said["machine"]) == 12


def test_a_test_case_has_status_and_numbers(found):
    root = ElementTree.fromstring(junit_xml(found).encode())
    cases = {(case.get("classname"), case.get("name")): case for case in root.iter("testcase")}
    slow = cases["cpu-box", MATMUL.id]
    assert float(slow.get("time")) == pytest.approx(1.1, rel=0.01)
    message = slow.find("failure").get("message")
    assert message.startswith("slower: its time changed by +10.0 % (+") and "before" in message
    assert slow.find("failure").get("type") == "slower"
    lost = cases["cpu-box", IMAGES.id].find("failure")
    assert lost.get("message") == 'lost: it was valid before, and is now wrong: it is "<0>" & \ufffd[31mred'
    few = cases["cpu-box", SMALL.id]
    assert "1 usable repeat" in few.find("skipped").get("message")
    assert float(few.get("time")) == pytest.approx(1e-4)
    assert "did not plan to measure it" in cases["cpu-box", LARGE.id].find("skipped").get("message")
    well = cases["gpu-box", MATMUL.id]
    assert [child.tag for child in well] == ["system-out"]
    assert "a slowdown above 4.8 % is excluded" in well.find("system-out").text


def test_times_relative_to_controls_are_marked():
    def beside(name, factor):
        control = Control("frozen", "ok", (), factor)
        return [replace(one, control=control) for one in times(name, MATMUL, factor)]

    found = compare_cells(of("now", *beside("now", 1.3)), of("before", *beside("before", 1.0)), set())
    root = ElementTree.fromstring(junit_xml(found).encode())
    assert "unchanged: its time relative to its control changed by +0.0 %" in root.find(".//system-out").text
