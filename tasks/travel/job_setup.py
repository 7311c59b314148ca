"""Prepare a job's repeats before the first one."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from tasks.errors import GridbenchError
from tasks.travel.code_download import unpack_code
from tasks.travel.data import data_for
from tasks.travel.environment import environment_for
from tasks.travel.run_code import JobCode
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.record import Record
from workloads.harness.records.repeat import Repeat
from workloads.harness.records.script import Script
from workloads.harness.repeat.exclusive import whole_box

WORKLOADS = "GRIDBENCH_WORKLOADS"
CODE, PACKAGES, DATA = "code", "packages", "data"  # phases, of the first repeat that needs them
SOURCES = "src"  # many projects have their package there


@dataclass(frozen=True, slots=True)
class PreparedScript:
    """A script on this machine.

    Attributes:
        script: with folder and data here.
        command: for one repeat, by an interpreter with its packages.
        packages: installed for it, as `name==version`.
    """

    script: Script
    command: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ()


@dataclass(slots=True)
class JobSetup:
    """A job's code, packages and data here.

    Attributes:
        scripts_here: by the script as ordered.
        phases_s: preparation that no record has noted; under None, the job's.
    """

    scripts_here: dict[Script, PreparedScript] = field(default_factory=dict)
    phases_s: dict[Script | None, dict[str, float]] = field(default_factory=dict)

    def repeat(self, repeat: Repeat) -> Repeat:
        """Return it as measured here."""
        prepared_script = self._of(repeat)
        return replace(repeat, script=prepared_script.script) if prepared_script else repeat

    def command(self, repeat: Repeat, command: Sequence[str]) -> tuple[str, ...]:
        """Return the command for a repeat; `command` if it is a workload's."""
        prepared_script = self._of(repeat)
        return prepared_script.command if prepared_script else tuple(command)

    @contextmanager
    def environment(self, repeat: Repeat) -> Iterator[None]:
        """Set the script's environment for processes started within."""
        prepared_script = self._of(repeat)
        with changed(prepared_script.environ if prepared_script else {}):
            yield

    def noted(self, repeat: Repeat, record: Record) -> Record:
        """Add image and packages; a script's first record also gets its preparation time.

        It counts in phases and wall, for the bill, not in samples.
        """
        prepared_script = self._of(repeat)
        if prepared_script and record.script:
            image = prepared_script.script.image or ""
            ran = replace(record.script, installed_packages=prepared_script.packages, image=image)
            record = replace(record, script=ran)
        took_s: dict[str, float] = {}
        for owner in dict.fromkeys((None, repeat.script)):
            for phase, seconds in self.phases_s.pop(owner, {}).items():
                took_s[phase] = took_s.get(phase, 0.0) + seconds
        if not took_s:
            return record
        total_s = sum(took_s.values())
        return replace(
            record,
            phases_s={**took_s, **record.phases_s},
            wall_s=record.wall_s + total_s,
            started_at=_earlier(record.started_at, total_s),
        )

    def _of(self, repeat: Repeat) -> PreparedScript | None:
        return self.scripts_here.get(repeat.script) if repeat.script else None


@contextmanager
def prepared(
    repeats: Sequence[Repeat],
    command: Sequence[str],
    code: JobCode,
    fetch: Callable[[str], bytes],
    say: Callable[[str], None],
) -> Iterator[JobSetup]:
    """Bring a job's files here, locked; remove the code afterwards.

    Args:
        command: for one repeat here.
        code: sent; other scripts run in their own folder here.

    Raises:
        GridbenchError: something can't be fetched.
    """
    scripts = list(dict.fromkeys(script for repeat in repeats for script in repeat.scripts))
    if not scripts and not code.workloads:
        yield JobSetup()
        return
    try:
        work = Path(tempfile.mkdtemp(prefix="gridbench-code-"))
    except OSError as error:
        raise GridbenchError(
            f"nothing can be written to {tempfile.gettempdir()} ({error.strerror}); free some, or set TMPDIR"
        ) from None
    try:
        setup, environ = JobSetup(), {}
        with _box(say):
            if code.workloads:
                with _timed(setup, None, CODE):
                    unpack_code(code.workloads, work / "workloads", fetch)
                environ[WORKLOADS] = str(work / "workloads")
            for number, script in enumerate(scripts):
                setup.scripts_here[script] = _prepare(
                    setup, script, work / str(number), command, code, fetch, say
                )
        with changed(environ):
            yield setup
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _prepare(
    setup: JobSetup,
    script: Script,
    work: Path,
    command: Sequence[str],
    code: JobCode,
    fetch: Callable[[str], bytes],
    say: Callable[[str], None],
) -> PreparedScript:
    folder, words = Path(script.folder), tuple(command)
    environ: dict[str, str] = {}
    packages: tuple[str, ...] = ()
    if script.code in code.scripts:
        folder = work
        with _timed(setup, script, CODE):
            unpack_code(script.code, folder, fetch)
    elif not folder.is_dir():
        raise GridbenchError(f"the code folder {folder} is not on this machine, and no copy of it was sent")
    if script.packages:
        with _timed(setup, script, PACKAGES):
            made = environment_for(folder, script.packages, Path(words[0]), say)
        words, packages = (str(made.python), *words[1:]), made.packages
        environ = _environ(made.python, folder)
    data = script.data
    if data:
        with _timed(setup, script, DATA):
            data = data_for(data, folder)
    return PreparedScript(replace(script, folder=str(folder), data=data), words, environ, packages)


def _environ(python: Path, folder: Path) -> dict[str, str]:
    """Return variables by which another interpreter finds our workloads, and the script its project."""
    sources = [str(folder / SOURCES)] if (folder / SOURCES).is_dir() else []
    paths = [*sources, os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])]
    places = [str(python.parent), *filter(None, [os.environ.get("PATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths), "PATH": os.pathsep.join(places)}


@contextmanager
def changed(environ: Mapping[str, str]) -> Iterator[None]:
    """Set variables for this process and its children."""
    before = {name: os.environ.get(name) for name in environ}
    os.environ.update(environ)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _box(say: Callable[[str], None]) -> Iterator[None]:
    """Prevent measurements while packages are installed and data is copied."""
    try:
        with whole_box(say):
            yield
    except WorkloadsError as error:
        raise GridbenchError(str(error)) from None


@contextmanager
def _timed(setup: JobSetup, script: Script | None, phase: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    setup.phases_s.setdefault(script, {})[phase] = time.perf_counter() - started


def _earlier(started_at: str, seconds: float) -> str:
    try:
        began = datetime.fromisoformat(started_at) - timedelta(seconds=seconds)
    except ValueError:
        return started_at
    return began.isoformat(timespec="seconds")
