"""Sessions' effects, by earlier runs."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

from tasks.errors import GridbenchError
from tasks.imported import SUITE as IMPORTED
from tasks.planning.limits import threads_on
from tasks.planning.plan import Plan
from tasks.results.sessions import SESSION_EFFECT, Part, SessionEffect, Sessions, effect_of, repeats_of
from tasks.results.turns import APART_S
from tasks.results.wording import code_of, files_of
from tasks.store.store import Store, runs
from tasks.travel.run_code import workloads_hash
from workloads.harness.probes.code import CHANGED
from workloads.harness.records.record import Record, Verdict

MOST_SESSIONS = 30  # older ones show little about today's machine
MOST_FOLDERS = 300  # folders searched for them
APART = timedelta(seconds=APART_S)  # between two sessions: runs in a row share more than their machine

Logs = dict[str, list[float]]
"""Log seconds of a run's repeats by case."""

Measured = tuple[str, str, str, str]
"""Hardware, fingerprint of machine and software, case, and code: the hash of its files or its commit."""


def sessions_of(store: Store, records: Sequence[Record]) -> Sessions:
    """Return the shown, else the assumed effect."""
    plan = store.plan
    assumed = SESSION_EFFECT if plan.session_effect is None else plan.session_effect
    effects: dict[str, SessionEffect] = {}
    repeats: dict[str, dict[str, Part]] = {}
    for name, earlier in _earlier(store, records).items():
        repeats[name] = repeats_of(earlier)
        if effect := effect_of(earlier, assumed):
            effects[name] = effect
    return Sessions.of(plan.machines, effects, assumed, repeats)


def _earlier(store: Store, records: Sequence[Record]) -> dict[str, list[Logs]]:
    plan, results = store.plan, store.folder.parent
    names = {machine.name for machine in plan.hardware}
    measured, ways, own = _measured(records), _ways(plan), workloads_hash(store.folder)
    by_machine: dict[str, list[Logs]] = {name: [] for name in names}
    began_last = datetime.fromisoformat(plan.created_at)
    later = dict.fromkeys(names, began_last)
    for began, folder, other in _plans(results, began_last):
        alike = {m.name for m in other.hardware if m.name in names and later[m.name] - began >= APART}
        if not alike or other.quick != plan.quick or other.suite == IMPORTED:  # a copy shows no difference
            continue
        if workloads_hash(folder) != own:
            continue
        same = {cell for cell, way in _ways(other).items() if ways.get(cell) == way}
        for machine, sessions in _times(folder, other, measured, same).items():
            if machine in alike and len(by_machine[machine]) < MOST_SESSIONS:
                by_machine[machine] += sessions
                later[machine] = began
    return by_machine


def _measured(records: Sequence[Record]) -> set[Measured]:
    return {
        (record.hardware, record.environment_id, record.case.id, code)
        for record in records
        for code in (files_of(record), code_of(record))
        if record.environment_id and code and not code.endswith(CHANGED)  # the changes are unknown
    }


def _ways(plan: Plan) -> dict[tuple[str, str], tuple[object, ...]]:
    """Return threads, soak and command, without its paths."""
    return {
        (machine.name, planned.case.id): (
            threads_on(machine, planned.threads),
            planned.soak_s,
            replace(planned.script, folder="", dirty=False, keep=None) if planned.script else None,
        )
        for machine in plan.hardware
        for planned in plan.cases
    }


def _plans(results: Path, before: datetime) -> list[tuple[datetime, Path, Plan]]:
    return sorted(islice(_planned(results, before), MOST_FOLDERS), key=lambda run: run[0], reverse=True)


def _planned(results: Path, before: datetime) -> Iterator[tuple[datetime, Path, Plan]]:
    for name in sorted(runs(results), reverse=True):
        with suppress(GridbenchError):  # a damaged run shows nothing
            plan = Store(results / name).plan
            began = datetime.fromisoformat(plan.created_at)
            if began < before:
                yield began, results / name, plan


def _times(
    folder: Path, plan: Plan, measured: Collection[Measured], cells: Collection[tuple[str, str]]
) -> Mapping[str, list[Logs]]:
    """Return log seconds of valid repeats on an idle machine.

    A rented machine had another box in each session; other sessions were turns of one box, and count as one.
    """
    from tasks.regressions.run_rows import counting, read_rows  # slow: imports pandas

    rows = read_rows(folder, plan)[0]
    quiet = counting(rows) & (rows["verdict"] != Verdict.NOISY)
    times: dict[str, dict[int | None, Logs]] = {}
    rented = {machine.name for machine in plan.hardware if machine.rent}
    columns = ("hardware", "environment_id", "case", "repeat", "compute_s", "code", "commit")
    for machine, print_id, case, repeat, seconds, files, commit in rows[quiet][[*columns]].itertuples(
        index=False
    ):
        code = files if isinstance(files, str) and files else commit  # older tables have no hash of files
        if (machine, case) in cells and (machine, print_id, case, code) in measured and seconds > 0:
            session = plan.session_of(int(repeat)) if machine in rented else None
            logs = times.setdefault(machine, {}).setdefault(session, {})
            logs.setdefault(case, []).append(math.log(seconds))
    return {machine: [*sessions.values()] for machine, sessions in times.items()}
