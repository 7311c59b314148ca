"""One repeat of a script in a fresh copy of its folder."""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain, count
from pathlib import Path

from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.files import path_inside
from workloads.harness.records.printable import printable
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.records.script import ScriptFiles
from workloads.harness.records.text import gigabytes
from workloads.harness.repeat.alarm import Alarm
from workloads.harness.repeat.copies import FolderCopy, fresh_copy
from workloads.harness.repeat.descendants import no_orphans
from workloads.harness.repeat.runs import COMMAND, Say, run_repeat
from workloads.harness.repeat.write_guard import WriteGuard

MOST_NAMES = 10  # of files in a record
REMEDY = "make it read-only, move it out of the folder, or give its place by --data"


def run_script(
    repeat: Repeat,
    lock: int,
    say: Say,
    command: Sequence[str] = COMMAND,
    environ: Mapping[str, str] = os.environ,
) -> Record:
    assert repeat.script is not None
    with closing(Alarm()) as alarm:
        if repeat.script.in_place:
            record = run_repeat(repeat, lock, say, command, environ, alarm)
            return with_files(record, ScriptFiles("folder"))
        folder = Path(os.path.abspath(repeat.script.folder))
        try:
            with fresh_copy(folder, kept_apart(repeat.script.keep, folder)) as copy:
                record = _run_in(copy, repeat, lock, say, command, environ, alarm)
                return with_files(record, _files(copy, repeat, say))
        except WorkloadsError as error:
            return repeat.failed(Verdict.UNSUPPORTED, str(error))


def kept_apart(keep: str | None, folder: Path) -> Path | None:
    if keep and os.path.realpath(keep) == os.path.realpath(folder):
        raise WorkloadsError(
            f"keep is {keep}, which is the script's folder; name another one, such as {keep}/kept"
        )
    return Path(keep) if keep else None


def _run_in(
    copy: FolderCopy,
    repeat: Repeat,
    lock: int,
    say: Say,
    command: Sequence[str],
    environ: Mapping[str, str],
    alarm: Alarm,
) -> Record:
    script = repeat.script
    assert script is not None
    data = None if script.data is None else copy.words([script.data])[0]
    script = replace(script, folder=str(copy.folder), command=copy.words(script.command), data=data)
    if script.program and (serving := script.program.serving):
        moved = replace(serving, command=copy.words(serving.command))
        script = replace(script, program=replace(script.program, serving=moved))
    here = replace(repeat, script=script)

    def opened(file: Path) -> None:
        alarm.ring(f"the script opened {_described(file)} for writing, which is not copied: {REMEDY}")

    too_large = copy.linked_files
    with WriteGuard([*too_large, *copy.other_files], opened) as guard, no_orphans():
        if unguarded := [file for file in guard.unguarded if file in too_large]:
            file = _described(unguarded[0])
            raise WorkloadsError(f"{file} is too large to copy and can't be guarded here: {REMEDY}")
        record = run_repeat(
            here, lock, lambda text: say(copy.there(text)), command, copy.environ(environ), alarm
        )
    run = record.script and replace(record.script, command=tuple(map(copy.there, record.script.command)))
    return replace(record, script=run, reasons=tuple(map(copy.there, record.reasons)))


def _described(file: Path) -> str:
    return f"{file} of {gigabytes(file.stat().st_size)}"


def _files(copy: FolderCopy, repeat: Repeat, say: Say) -> ScriptFiles:
    written, kept = copy.written(), ""
    if repeat.script and repeat.script.keep and written:
        folder = _free(path_inside(Path(repeat.script.keep), f"{repeat.cell.id}/{repeat.repeat}"))
        try:
            copy.keep(written, folder)
            kept = str(folder)
            say(f"{repeat.id}: its files are kept in {kept}")
        except WorkloadsError as error:  # the measurement is sound without them
            say(f"{repeat.id}: {error}")
    return ScriptFiles(
        written=len(written),
        names=_first(written),
        linked=_first(copy.links),
        changed=_first(copy.changed_originals()),
        kept=kept,
    )


def with_hint(record: Record, ended: Iterable[Record]) -> Record:
    run = record.script
    if run is None or run.ended != "finished" or run.exit_code:
        return record
    most = max(
        (other.script.steps for other in ended if other.cell == record.cell and other.script), default=0
    )
    if run.steps > most / 2 or not most:
        return record
    hint = (
        f"an earlier repeat took {most:,} steps: it might have found its own checkpoint, outside its folder"
    )
    return replace(record, reasons=(*record.reasons, hint))


def with_files(record: Record, files: ScriptFiles) -> Record:
    return replace(record, script=replace(record.script, files=files)) if record.script else record


def _first(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(map(printable, names[:MOST_NAMES]))


def _free(folder: Path) -> Path:
    others = (folder.with_name(f"{folder.name}-{number}") for number in count(2))
    return next(path for path in chain([folder], others) if not path.exists())
