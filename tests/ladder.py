"""The ladder of tests: unit < server < cloud < chaos, by folder, and those of the upper rungs in `make test`."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.sharing import scope_of

TESTS = Path(__file__).parent
LEVELS = {
    "unit": "the default: no server, container or browser, and a few seconds at most",
    "server": "a Prefect server, worker, browser or processes of this machine, or many seconds of computing",
    "cloud": "emulated clouds and boxes, with containers",
    "chaos": "deaths, reclaims and collisions, searches of minutes, and the emulators' own tests",
}
RUNGS = list(LEVELS)
FOLDERS = {"emulators": "chaos"}  # whole folders; elsewhere a folder has the name of its level
# One way from end to end for each backend: all that `make test` takes of the levels above `server`.
JOURNEYS = {
    "flows/batch/cloud/test_lanes.py::test_two_machines_are_measured_in_containers_and_the_report_is_in_the_bucket",
    "flows/gke/cloud/test_lanes.py::test_three_accelerators_are_measured_compared_and_priced",
    "flows/rented/cloud/test_lanes.py::test_boxes_are_rented_measured_on_billed_compared_and_returned",
    "infra/workers/ssh/ends/cloud/test_jobs.py::test_every_job_ends_in_the_right_state",
}
MARKERS = {
    **LEVELS,
    "journey": "one way from end to end for a backend: make test takes it, too",
    "alone": "measures time or looks at the machine's processes; nothing may run beside it",
}


def level_of(path: Path, markers: Iterable[str] = ()) -> str:
    """Return the level of a test's folder, or a higher marked one."""
    parts = path.relative_to(TESTS).parts[:-1]
    named = [*(FOLDERS.get(part, part) for part in parts), *markers]
    return max((name for name in named if name in LEVELS), key=RUNGS.index, default="unit")


def refusal(level: str, flaky: pytest.Mark | None) -> str | None:
    """Return why a test's rerun is refused, or None."""
    if flaky is None:
        return None
    if level == "unit":
        return "a unit test that needs a rerun is a bug"
    if flaky.args or not {"reruns", "reason"} <= flaky.kwargs.keys() or not flaky.kwargs["reason"].strip():
        return "a rerun needs a reason: flaky(reruns=2, reason=…)"
    return None


def level_asked(item: pytest.Item) -> str:
    """Return the level of a collected test; refuse a marker that changes nothing and a rerun without a reason."""
    marked = [mark.name for mark in item.iter_markers() if mark.name in LEVELS]
    level = level_of(item.path, marked)
    if marked and level == level_of(item.path):
        raise pytest.UsageError(
            f"{item.nodeid} is of level {level} by its folder: a marker can only raise it"
        )
    if sentence := refusal(level, item.get_closest_marker("flaky")):
        raise pytest.UsageError(f"{item.nodeid}: {sentence}")
    return level


def place(items: list[pytest.Item]) -> None:
    """Mark each test with its level, and as a journey; the highest levels come first.

    Tests of one scope stay together.
    """
    levels = {item: level_asked(item) for item in items}
    for node in {node for item in items for node in item.listchain()}:
        node.own_markers = [mark for mark in node.own_markers if mark.name not in LEVELS]
    for item, level in levels.items():
        item.add_marker(level)
        name = f"{item.path.relative_to(TESTS)}::{item.name.partition('[')[0]}"
        if name in JOURNEYS and levels[item] == level_of(
            item.path
        ):  # a backend marked higher is not a journey
            item.add_marker("journey")
    items.sort(key=lambda item: -RUNGS.index(levels[item]))
    scopes = {
        scope: place for place, scope in enumerate(dict.fromkeys(scope_of(item.nodeid) for item in items))
    }
    items.sort(key=lambda item: scopes[scope_of(item.nodeid)])
