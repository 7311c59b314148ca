"""A user's own scripts, one of each kind: the suite of all of them, and what a lane must make of it."""

from pathlib import Path

from workloads.harness.records.grade import counts
from workloads.harness.records.script import ScriptRun

SUITE = Path(__file__).with_suffix(".toml")
BY_THEMSELVES = ("subcommands", "three")  # they end before they are measured


def asked(bench, hardware):
    """The parameters of a run of the suite: by its path, which the form of a deployment has no field for."""
    return {"request": {"suite": str(SUITE), "hardware": [hardware], "results": str(bench.results)}}


def check_records(records, is_copy):
    """Check the records of the suite from one machine; `is_copy` where the code had to travel there."""
    by_name = {record.case.workload: record for record in records}
    assert len(by_name) == len(records) == 17
    failed = {name: record.reasons for name, record in by_name.items() if record.wall is None}
    assert not failed
    runs = {name: record.script for name, record in by_name.items()}
    ended = {name: run.ended for name, run in runs.items() if name != "plain"}  # which a fast machine ends
    assert ended == dict.fromkeys(ended, "stopped") | dict.fromkeys(BY_THEMSELVES, "finished")
    assert all(isinstance(run, ScriptRun) and run.steps >= 3 for run in runs.values())
    (code,) = {run.code for run in runs.values()}
    assert code.startswith("sha256:")
    first = min(records, key=lambda record: record.order)
    assert ("code" in first.phases_s) == is_copy
    assert runs["nanogpt"].tokens and runs["gan"].optimizers == ("RMSprop", "Adam")
    assert (runs["inference"].counted, runs["marked"].counted) == ("forward", "mark")
    assert runs["ddp"].samples == 16, "of both ranks"
    assert runs["plain"].job.epochs == 2
    return {name: counts(record) for name, record in by_name.items()}
