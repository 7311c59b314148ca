"""Tests that share a service stay in one process, and the service ends with the last of them.

A Prefect server takes seconds of CPU to start and 5 % of a core when idle, so one in each process would slow
the other tests.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

# A fixture of the session, and the files that use it of those that `make test` takes.
SHARED = {
    "session_bench": (
        "tests/flows/batch/cloud/test_lanes.py",
        "tests/flows/gke/cloud/test_lanes.py",
        "tests/flows/nightly/server/test_nights.py",
        "tests/flows/server/test_bench.py",
        "tests/flows/server/test_more_money.py",
        "tests/flows/server/test_script.py",
    ),
    "prefect": (
        "tests/infra/workers/base/server/test_refused_lanes.py",
        "tests/infra/workers/ssh/cloud/test_worker.py",
    ),
    "locked": (
        "tests/infra/workers/ssh/proxy/server/test_engine.py",
        "tests/infra/workers/ssh/proxy/server/test_hostile_box.py",
    ),
}
SERVICE_OF = {file: service for service, files in SHARED.items() for file in files}
RUNNING: dict[str, tuple[Any, Any]] = {}  # services that this process has started: definition and request


def scope_of(nodeid: str) -> str:
    """Return a test's scope: its file, or the service that its file shares."""
    file = nodeid.partition("::")[0]
    return SERVICE_OF.get(file, file)


class Together(LoadFileScheduling):
    """Give all tests of one scope to one process, in collected order."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together | None:
    return Together(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Iterator[None]:
    made = yield
    if fixturedef.argname in SHARED and fixturedef.scope == "session":
        RUNNING[fixturedef.argname] = fixturedef, request
    return made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """End services that the next scope does not use; a later one starts its own."""
    try:
        return (yield)
    finally:
        if nextitem is not None and scope_of(nextitem.nodeid) != scope_of(item.nodeid):
            for name in RUNNING.keys() - {*nextitem.fixturenames}:
                fixturedef, request = RUNNING.pop(name)
                fixturedef.finish(request)
