"""Every suite with cases for a CPU runs to its end at tiny sizes, in real processes."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.workloads.building import takes_seconds
from workloads.harness.records.case import Case
from workloads.harness.records.files import read_records
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.repeat.limits import too_large
from workloads.harness.repeat.local_limits import limits_here
from workloads.harness.repeat.series import measure_suite
from workloads.harness.repeat.suite import load_suite, suite_names

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a neighbour's load changes what is measured, and when processes end"
)

ROOT = Path(__file__).parents[3]
FINE = {
    *(Verdict.OK, Verdict.UNSTEADY, Verdict.IMPRECISE, Verdict.THROTTLED, Verdict.SHARED, Verdict.NOISY),
    *(Verdict.UNSUPPORTED, Verdict.SKIPPED),
}


def part_of(name, slow):
    """Return a suite at tiny sizes: the slow workloads, or the others."""
    tiny = load_suite(name).tiny()
    here = [entry for entry in tiny.entries if entry.is_for("cpu")]
    entries = [entry for entry in here if takes_seconds(entry.case.workload) == slow]
    return replace(tiny, entries=tuple(entries))


# Minutes long; the contract's tests measure their cases at tiny sizes, too.
LONG = {"acceptance", "accelerators", "ddpm-scaling", "full", "llm", "loadtest", "nightly"}
SUITES = [
    pytest.param(
        name,
        slow,
        id=f"{name}-slow" if slow else name,
        marks=[pytest.mark.chaos] * (slow or name in LONG),
    )
    for name in suite_names()
    for slow in (False, True)
    if part_of(name, slow).entries
]
STRONG = Case.of("ddpm_strong", {"batch": 2, "processes": 2})


@pytest.fixture(scope="module")
def ran():
    """Records by case and threads: a case of several suites is measured once, with a profile first."""
    return {}


@pytest.mark.timeout(2400)
@pytest.mark.parametrize(("name", "slow"), SUITES)
def test_a_suite_at_its_tiny_sizes(name, slow, ran, box_lock):
    tiny = part_of(name, slow)
    threads = {entry.case: entry.threads for entry in tiny.entries}
    todo = [
        entry
        for entry in tiny.entries
        if (record := ran.get((entry.case, entry.threads))) is None or (tiny.profile and not record.profile)
    ]
    if todo:
        records = []
        part, base = replace(tiny, entries=tuple(todo)), Repeat("tiny", "here", todo[0].case)
        measure_suite(part, base, 1, print, records.append)
        assert {record.case for record in records} == {entry.case for entry in todo}
        ran |= {(record.case, threads[record.case]): record for record in records}
    for case in tiny.cases:
        record = ran[case, threads[case]]
        assert record.verdict in FINE, (record.id, record.reasons)
        reason = too_large(case, limits_here("here", "cpu", threads[case]), tiny.timeout_s)
        assert record.reasons == (reason,) if reason else record.verdict is not Verdict.SKIPPED
        if record.verdict is Verdict.UNSUPPORTED:
            assert case.precision != "fp32" or case.workload == "transfer_bandwidth", record.reasons
        elif record.verdict is not Verdict.SKIPPED:
            assert record.wall and record.work
            assert record.profile is not None or not tiny.profile or case.workload.endswith("_job")
        if case == STRONG and record.verdict not in (Verdict.UNSUPPORTED, Verdict.SKIPPED):
            trained_by_two(record)


def trained_by_two(record):
    """Check a whole model, trained by two processes that share a batch."""
    assert len(record.group.ranks) == 2 and 0 <= record.group.communication_share < 1
    assert record.work.parameters == 35_746_307
    assert record.work.units == record.case.params["batch"]
    assert record.work.counted_flops == record.work.matmul_flops
    assert Record.from_json(record.to_json()) == record


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_from_the_command_line(tmp_path, box_lock):
    command = [
        sys.executable,
        "-m",
        "workloads",
        "suite",
        "quick",
        "--tiny",
        f"--out={tmp_path}",
        "--profile",
    ]
    found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=500)
    records = list(read_records(tmp_path))
    cases = load_suite("quick").tiny().cases
    assert {record.case for record in records} == set(cases)
    assert found.returncode == (0 if all(record.ok for record in records) else 1), found.stderr
    assert found.stdout == ""
    assert {record.verdict for record in records} <= FINE
    tables = sorted(path.name for path in tmp_path.rglob("*.profile.txt"))
    assert tables == ["1.profile.txt"] * len(cases)
