"""Commands that read records, and the check of this machine."""

import argparse
from pathlib import Path

from workloads.command.measure import say
from workloads.harness.checks.fitness import before_measuring, findings
from workloads.harness.records.errors import RecordError, WorkloadsError
from workloads.harness.records.files import read_records
from workloads.harness.records.record import Record
from workloads.harness.records.text import HEAD, comparison, detail, line, table
from workloads.harness.roofline.bounds import roofline_json, roofline_text


def check(options: argparse.Namespace) -> int:
    """Say whether this machine is fit to measure on."""
    results = before_measuring(options.before, options.gpus) if options.before else findings()
    print("\n".join(f"{'ok  ' if fit else 'warn'}  {text}" for fit, text in results))
    return 0 if all(fit for fit, _ in results) else 1


def show(options: argparse.Namespace) -> int:
    """Show records."""
    records, sound = _read(options.path)
    if options.json:
        print("\n".join(record.to_json() for record in records))
    elif len(records) == 1:
        print(detail(records[0]))
    elif records:
        print(table([HEAD, *map(line, records)]))
    return 0 if sound else 1


def compare(options: argparse.Namespace) -> int:
    """Compare two sets of records."""
    (base, base_sound), (other, other_sound) = _read(options.base), _read(options.other)
    print(comparison(base, other))
    return 0 if base_sound and other_sound else 1


def roofline(options: argparse.Namespace) -> int:
    """Say what bounds each case."""
    records, sound = _read(options.path)
    print(roofline_json(records) if options.json else roofline_text(records))
    return 0 if sound else 1


def _read(path: Path) -> tuple[list[Record], bool]:
    """Return the readable records at a path, and True if all were; name the others on standard error."""
    records, sound = [], True
    for item in read_records(path):
        if isinstance(item, RecordError):
            say(f"error: {item}")
            sound = False
        else:
            records.append(item)
    if sound and not records:
        raise WorkloadsError(f"{path} holds no records; name a file of records or a run's folder")
    return records, sound
