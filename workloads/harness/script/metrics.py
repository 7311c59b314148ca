"""The numbers of a command, read from its output or a file."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.printable import printable
from workloads.harness.records.program import Metric, MetricValue

SHOWN = 3  # values that a sentence names
LONGEST = 60  # characters of a value in a sentence
_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d*)(?:\.\d*)?(?:[eE][-+]?\d+)?")
Text = Callable[[str], str]


def value_of(metric: Metric, outputs: Sequence[str], file_text: Text) -> MetricValue:
    where = metric.file or "the output"
    texts = [file_text(metric.file)] if metric.file else [text for text in outputs if text.strip()]
    values: list[object] = []
    why = ""
    for text in texts:
        try:
            values = [*_values(metric, text)]
        except ValueError as error:
            why = f": {printable(str(error))[:LONGEST]}"
        if values:
            break
    what = f"{metric.kind} {metric.path}" if metric.kind else f"the pattern {metric.pattern}"
    if not values:
        raise WorkloadsError(f"metric {metric.name} is not in {where}: {what} matches nothing{why}")
    if len(values) > 1:
        listed = ", ".join(printable(str(value))[:LONGEST] for value in values[:SHOWN])
        more = ", …" if len(values) > SHOWN else ""
        raise WorkloadsError(
            f"metric {metric.name} is in {where} {len(values)} times ({listed}{more}): make {what} match one of them"
        )
    return MetricValue(metric.name, metric.unit, metric.better, _number(metric, values[0]))


def _values(metric: Metric, text: str) -> Iterator[object]:
    if not metric.kind:
        yield from (match[1] for match in re.finditer(metric.pattern, text, re.MULTILINE))
        return
    parsed = parsed_json(text) if metric.kind == "json" else [*csv.DictReader(io.StringIO(text))]
    yield from _at(parsed, metric.path.split("."))


def parsed_json(text: str) -> Any:
    """Parse a text, or its last line that is an object or list, or raise ValueError."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        for line in reversed(text.splitlines()):
            if line.lstrip()[:1] in ("{", "["):
                try:
                    return json.loads(line)
                except (ValueError, RecursionError):
                    continue
        raise ValueError(f"it is not JSON ({error})") from None


def _at(value: Any, path: Sequence[str]) -> Iterator[object]:
    """Yield the values at a path; a name goes into each element of a list."""
    if not path:
        yield value
    elif isinstance(value, dict):
        for length in range(len(path), 0, -1):  # a key can hold a dot, such as of CSV's headings
            if (key := ".".join(path[:length])) in value:
                yield from _at(value[key], path[length:])
                return
    elif isinstance(value, list) and path[0].isdecimal():
        if int(path[0][:9]) < len(value):
            yield from _at(value[int(path[0])], path[1:])
    elif isinstance(value, list):
        for element in value:
            yield from _at(element, path)


def _number(metric: Metric, value: object) -> float:
    text = str(value).strip().removesuffix("%").strip()
    number = math.nan
    if not isinstance(value, bool) and _NUMBER.fullmatch(text) and any(map(str.isdecimal, text)):
        number = float(text.replace(",", ""))
    if not math.isfinite(number):
        raise WorkloadsError(
            f"metric {metric.name} is {printable(str(value))[:LONGEST]!r}, which is not a number"
        )
    return number
