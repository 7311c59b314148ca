import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from gridbench.run.session import ROOT, deploy
from tasks.regressions.bisect_runs import runs_of
from tasks.regressions.series_reader import read_nights
from tasks.store.address import ResultsAddress
from tests.flows.nightly.watched_case import MACHINE, SPEEDS, SUITE, WATCHED

pytestmark = [
    pytest.mark.flaky(
        reruns=2, reason="a real Prefect server and its workers answer late where the machine is busy"
    ),
    pytest.mark.timeout(900),
]
VERSIONS = {"v1": 0.0100, "v2": 0.0100, "v3": 0.0101, "v4": 0.0120, "v5": 0.0120}  # seconds of a step


@pytest.fixture
def versions(bench, tmp_path):
    """A folder with the speed of each, and a machine and a suite to measure them on."""
    deployments = Path(bench.environment["GRIDBENCH_DEPLOYMENTS"])
    for version, step_s in VERSIONS.items():
        (tmp_path / f"{version}.json").write_text(json.dumps(SPEEDS | {"matmul": step_s}))
    speeds = tmp_path / "v1.json"
    files = {
        deployments / "hardware" / "watched.yaml": MACHINE.format(
            python=sys.executable, watched=WATCHED, speeds=speeds
        ),
        deployments / "suites" / "watch.toml": SUITE,
    }
    for path, text in files.items():
        path.write_text(text)
    deploy(schedules=False, settings=bench.stack.environment)  # the form knows them then
    yield tmp_path
    for path in files:
        path.unlink()


async def test_the_version_that_changed_a_case_is_found_confirmed_and_in_no_series(versions):
    results = versions / "results"
    gridbench = str(Path(sys.executable).with_name("gridbench"))
    command = [gridbench, "bisect", "matmul/n=500/fp32", "v1", "v5", "--on", "watched", "--suite", "watch"]
    command += ["--versions", ",".join(VERSIONS), "--repeats", "3", "--results", str(results)]
    command += ["--command-template", f"{sys.executable} {WATCHED} {versions}/{{version}}.json"]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=800, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "v4" in done.stdout.splitlines()[-1], done.stdout
    search = next(line.split()[1] for line in done.stdout.splitlines() if line.startswith("search "))
    stores = runs_of(ResultsAddress(results), search)
    versions = [store.plan.night.version for store in stores]
    measured = [(version.name, version.partner.name) for version in versions]
    assert measured[0] == ("v5", "v1") and measured[-1] == ("v4", "v3")
    assert len(measured) == 4, measured  # of 5 versions: both ends, two between them, both sides of the step
    for record in (record for store in stores for record in store.records()[0]):
        assert record.control.verdict == "ok" and not record.control.reference
    assert read_nights(results)[0] == []
