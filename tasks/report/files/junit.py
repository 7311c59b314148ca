"""Two runs compared as JUnit XML.

Elements fit the schema of Ant's JUnit task and of Jenkins' xUnit plugin (junit-10.xsd).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from tasks.regressions.run_gate import CellComparison, RunComparison
from tasks.report.text.run_gate import numbers_text, smallest_text, status_text
from tasks.results.confounds import machine_of
from tasks.results.metrics import metric_in
from tasks.results.wording import code_of

# Characters that XML 1.0 forbids, even escaped. Source: https://www.w3.org/TR/xml/#charsets
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(comparison: RunComparison) -> str:
    """Return a suite per machine, a test per case, timed by a step."""
    root = Element("testsuites", {"name": _clean(f"{comparison.now.name} against {comparison.before.name}")})
    for hardware in dict.fromkeys(one.cell.hardware for one in comparison.cells):
        of_it = [one for one in comparison.cells if one.cell.hardware == hardware]
        root.append(_suite(comparison, hardware, of_it))
    counts = _counts(comparison.cells)
    root.attrib |= {name: counts[name] for name in ("tests", "failures", "errors")}
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _suite(comparison: RunComparison, hardware: str, cells: Sequence[CellComparison]) -> Element:
    seconds = sum(map(_spent_s, cells))
    suite = Element("testsuite", {"name": _clean(hardware), **_counts(cells), "time": _seconds(seconds)})
    properties = SubElement(suite, "properties")
    for name, value in _properties(comparison, hardware).items():
        SubElement(properties, "property", {"name": name, "value": _clean(value)})
    for cell in cells:
        suite.append(_case(cell))
    return suite


def _case(one: CellComparison) -> Element:
    names = {"classname": _clean(one.cell.hardware), "name": _clean(one.cell.case.id)}
    case = Element("testcase", {**names, "time": _seconds(_spent_s(one))})
    message = _clean(f"{status_text(one)}: {numbers_text(one)}")
    if one.status.failed:
        SubElement(case, "failure", {"type": str(one.status), "message": message}).text = message
    elif not one.status.decided:
        SubElement(case, "skipped", {"message": message})
    SubElement(case, "system-out").text = _clean(f"{message}\n{smallest_text(one)}\n")
    return case


def _spent_s(one: CellComparison) -> float:
    """Return 0 for a metric."""
    return one.now_s.value if one.now_s and not metric_in(one.cell.case.id) else 0.0


def _counts(cells: Sequence[CellComparison]) -> dict[str, str]:
    return {
        "tests": str(len(cells)),
        "failures": str(sum(cell.status.failed for cell in cells)),
        "errors": "0",
        "skipped": str(sum(not cell.status.decided for cell in cells)),
    }


def _properties(matches: RunComparison, hardware: str) -> Mapping[str, str]:
    stated = {
        "run": matches.now.name,
        "against": matches.before.name,
        "least change": f"{matches.limits.least:g}",
        "excluded change": f"{matches.limits.excluded:g}",
        "confidence of each interval": f"{matches.confidence:.6g}",
    }
    for prefix, side in (("", matches.now), ("against ", matches.before)):
        own = [record for record in side.records if record.hardware == hardware]
        facts = {
            "commit": _all(map(code_of, own)),
            "machine": _all(map(machine_of, own)),
            "hostname": _all(record.environment.get("hostname") for record in own),
        }
        stated |= {f"{prefix}{name}": text for name, text in facts.items() if text}
    return stated


def _all(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(str(value) for value in values if value))


def _seconds(seconds: float) -> str:
    """Omit exponents, which Jenkins' schema does not allow."""
    return f"{seconds:.9f}"


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
