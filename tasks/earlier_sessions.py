"""The effect of a session on each machine of a run, by the earlier runs of the same hardware in its results store."""

import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

from tasks.errors import GridbenchError
from tasks.imported import SUITE as IMPORTED
from tasks.planning.plan import Plan
from tasks.results.sessions import SESSION_EFFECT, Part, SessionEffect, Sessions, effect_of, repeats_of
from tasks.store.store import Store, runs
from workloads.harness.records.record import Record, Verdict

MOST_SESSIONS = 30  # the latest ones: older ones say little about the machine of today
MOST_FOLDERS = 300  # that are looked at for them
APART = timedelta(hours=1)  # between two sessions: runs in a row share more than their machine

Logs = dict[str, list[float]]
"""Log seconds of a run's repeats by case."""


def sessions_of(store: Store, records: Sequence[Record]) -> Sessions:
    """Return the sessions of a run's machines: with the effect that earlier runs show, or else the assumed one."""
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
    """Return the times of the latest earlier runs by machine, of the same cases, machine and software."""
    plan, results = store.plan, store.folder.parent
    names = {machine.name for machine in plan.hardware}
    prints = {(record.hardware, record.environment_id) for record in records if record.environment_id}
    cases = {planned.case.id for planned in plan.cases}
    by_machine: dict[str, list[Logs]] = {name: [] for name in names}
    later = dict.fromkeys(names, datetime.fromisoformat(plan.created_at))
    for began, folder, other in _plans(results):
        alike = {m.name for m in other.hardware if m.name in names and later[m.name] - began >= APART}
        if not alike or other.quick != plan.quick or other.suite == IMPORTED:  # a copy shows no difference
            continue
        for machine, logs in _times(folder, other, prints, cases).items():
            if machine in alike and len(by_machine[machine]) < MOST_SESSIONS:
                by_machine[machine].append(logs)
                later[machine] = began
    return by_machine


def _plans(results: Path) -> list[tuple[datetime, Path, Plan]]:
    """Return the latest runs of a results store, each with the time and the folder of its plan, the latest first."""
    plans = []
    for name in islice(sorted(runs(results), reverse=True), MOST_FOLDERS):
        with suppress(GridbenchError):  # a damaged run shows nothing
            plan = Store(results / name).plan
            plans.append((datetime.fromisoformat(plan.created_at), results / name, plan))
    return sorted(plans, key=lambda run: run[0], reverse=True)


def _times(
    folder: Path, plan: Plan, prints: Collection[tuple[str, str]], cases: Collection[str]
) -> Mapping[str, Logs]:
    """Return the log seconds of a run's valid repeats on an idle machine, by machine and case."""
    from tasks.regressions.run_rows import counting, read_rows  # imports pandas, which is slow

    rows = read_rows(folder, plan)[0]
    quiet = counting(rows) & (rows["verdict"] != Verdict.NOISY) & rows["case"].isin(cases)
    times: dict[str, Logs] = {}
    columns = ("hardware", "environment_id", "case", "compute_s")
    for hardware, print_id, case, seconds in rows[quiet][[*columns]].itertuples(index=False):
        if (hardware, print_id) in prints and seconds > 0:
            times.setdefault(str(hardware), {}).setdefault(str(case), []).append(math.log(seconds))
    return times
