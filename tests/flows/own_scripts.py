"""A suite of users' scripts, one of each kind, and the expected records of a lane.

`python -m tests.flows.own_scripts NAME=FOLDER…` prints the observations in the records below each folder.
"""

import sys
from pathlib import Path

from workloads.harness.records.grade import counts
from workloads.harness.records.record import Record
from workloads.harness.records.script import ScriptRun

SUITE = Path(__file__).with_suffix(".toml")
BY_THEMSELVES = ("subcommands", "three")  # they end before they are measured


def asked(bench, hardware):
    """Return the parameters of a run by its suite's path, for which the form has no field."""
    return {"request": {"suite": str(SUITE), "hardware": [hardware], "results": str(bench.results)}}


def check_records(records, is_copy):
    """Check one machine's records of the suite; `is_copy` if the code had to travel there."""
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


def seen(run):
    work = [
        f"{run.tokens} tokens" if run.tokens else f"{run.samples} samples" if run.samples else "",
        f"{run.accumulation:g} backward calls" if run.accumulation and run.accumulation > 1 else "",
    ]
    return ", ".join([" + ".join(run.optimizers) or run.counted, *filter(None, work)])


def table(backends):
    """Return the observations of each script by backend, `{backend: its records}`, as a Markdown table."""
    by_name = {
        backend: {record.case.workload: record for record in records} for backend, records in backends.items()
    }
    lines = ["| script | a step | " + " | ".join(by_name) + " |", "| --- | --- |" + " --- |" * len(by_name)]
    for name in sorted(set().union(*by_name.values())):
        found = [records.get(name) for records in by_name.values()]
        steps = {seen(record.script): None for record in found if record}
        ends = [
            f"{record.script.steps} steps, {record.script.ended}" if record else "not measured"
            for record in found
        ]
        lines.append(f"| `{name}` | {' / '.join(steps)} | {' | '.join(ends)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    folders = dict(word.split("=", 1) for word in sys.argv[1:])
    print(
        table(
            {
                backend: [
                    Record.from_json(file.read_text()) for file in Path(folder).glob("**/records/**/*.json")
                ]
                for backend, folder in folders.items()
            }
        )
    )
