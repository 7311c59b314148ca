"""Suites: named lists of cases, in TOML for boxes with only torch."""

import itertools
import math
import os
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workloads.harness.records.case import EAGER, Case
from workloads.harness.records.errors import WorkloadsError, hint
from workloads.harness.records.script import Script
from workloads.harness.registry import find
from workloads.harness.repeat.commands import command_cases
from workloads.harness.repeat.scripts import ESTIMATE_S as SCRIPT_ESTIMATE_S
from workloads.harness.repeat.scripts import script_cases
from workloads.harness.repeat.suite_case import ESTIMATE_S, SuiteCase, check_soak, counted
from workloads.harness.repeat.tables import check_keys, choices_of, device_of

DEPLOYMENTS = Path(os.environ.get("GRIDBENCH_DEPLOYMENTS") or Path(__file__).parents[3] / "deployments")
FOLDER = DEPLOYMENTS / "suites"
KEYS = {
    **{"title": str, "minutes": float},
    **dict.fromkeys(("repeats", "sessions", "timeout_s", "threads"), int),
    **dict.fromkeys(("quick", "profile", "acceptance"), bool),
    **dict.fromkeys(("suites", "cases", "scripts", "commands"), list),
}
OWN_KEYS = ("repeats", "sessions", "quick", "timeout_s", "threads", "profile", "acceptance")
CASE_KEYS = {
    **{"workload": str, "size": dict, "precision": list, "mode": list},
    **{"threads": int, "estimate_s": float, "device": str, "soak_s": float},
}
MOST_CASES = 20_000  # of a suite: its plan and its report stay readable, and its expansion takes seconds
REPEATS, TIMEOUT_S = 3, 600.0  # the defaults of a suite; seconds are of a repeat


@dataclass(frozen=True, slots=True)
class Suite:
    """A named list of cases.

    Attributes:
        repeats: fresh processes per cell, unless a run states another number.
        sessions: of each machine, over which these repeats are spread.
        quick: wait less for machines that do not settle.
        brief: take a few samples, however imprecise.
        timeout_s: seconds after which a repeat is stopped.
        threads: of the cases that state none.
        profile: make a profile pass after the first repeat of each cell.
        acceptance: advise for each measured machine whether to keep it.
    """

    name: str
    title: str
    entries: tuple[SuiteCase, ...]
    repeats: int = REPEATS
    quick: bool = False
    brief: bool = False
    timeout_s: float = TIMEOUT_S
    threads: int | None = None
    profile: bool = False
    acceptance: bool = False
    sessions: int = 1

    @property
    def cases(self) -> tuple[Case, ...]:
        return tuple(entry.case for entry in self.entries)

    @property
    def minutes(self) -> float:
        """Of its repeats on a 2-core CPU, or on a GPU if all cases are for GPUs."""
        return sum(entry.repeat_s for entry in counted(self.entries, self.timeout_s)) * self.repeats / 60

    def on(self, devices: Collection[str]) -> "Suite":
        entries = tuple(entry for entry in self.entries if any(map(entry.is_for, devices)))
        if not entries:
            raise WorkloadsError(f"suite {self.name} has no cases for {' or '.join(sorted(devices))}")
        return replace(self, entries=entries)

    def tiny(self) -> "Suite":
        """Return the workloads at their tiny sizes, once each, as a check.

        `processes`, the subject of its cases, and scripts, whose tiny sizes are unknown, stay.
        """
        entries = {entry.case: entry for entry in self.entries if entry.script}
        for entry in (entry for entry in self.entries if not entry.script):
            workload, case = find(entry.case.workload), entry.case
            kept = {name: value for name, value in case.size if name == "processes"}
            tiny = workload.case(workload.tiny | kept, case.precision, case.mode)
            same = entries.get(tiny)
            if same is None or (same.device and not entry.device):  # measured everywhere if one of them is
                entries[tiny] = SuiteCase(tiny, threads=entry.threads, device=entry.device)
        return replace(self, entries=tuple(entries.values()), repeats=1, brief=True)


def suite_names(folder: Path = FOLDER) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.toml"))


def load_suite(name: str, folder: Path = FOLDER) -> Suite:
    path = Path(name) if name.endswith(".toml") else folder / f"{name}.toml"
    raw = _read(path, name, folder)
    try:
        return _suite(path.stem, raw, folder, path.parent)
    except WorkloadsError as error:
        raise WorkloadsError(f"suite {path.name}: {error}") from None


def _read(path: Path, name: str, folder: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))  # a Windows editor begins with a mark
    except FileNotFoundError:
        if name.endswith(".toml"):
            raise WorkloadsError(f"suite {name!r} is unknown: the file does not exist") from None
        if Path(name).is_file():
            raise WorkloadsError(f"suite {name!r}: the name of a suite file ends in .toml") from None
        raise WorkloadsError(f"suite {name!r} is unknown; {hint(name, suite_names(folder))}") from None
    except (OSError, ValueError) as error:  # not TOML, not UTF-8, or a number of thousands of digits
        raise WorkloadsError(f"suite {path} can't be read: {error}") from None
    except RecursionError:
        raise WorkloadsError(f"suite {path} can't be read: its brackets are nested too deeply") from None


def _suite(name: str, raw: Mapping[str, Any], folder: Path, here: Path) -> Suite:
    check_keys(raw, KEYS, "the suite")
    stated: dict[Case, tuple[SuiteCase, float | None]] = {}  # with its own estimate
    for part in map(str, raw.get("suites", [])):
        content = _read(folder / f"{part}.toml", part, folder)
        if "suites" in content:
            raise WorkloadsError(f"suites has {part!r}, which consists of suites itself; list those instead")
        for member in _suite(part, content, folder, folder).entries:
            stated.setdefault(member.case, (member, member.estimate_s))
    for entry in raw.get("cases", []):
        check_keys(entry, CASE_KEYS, "a case")
        if "workload" not in entry:
            raise WorkloadsError("a case lacks the key workload")
        threads, device = entry.get("threads", raw.get("threads")), device_of(entry)
        soak_s = float(entry["soak_s"]) if "soak_s" in entry else None
        for case in _expand(entry):
            if len(stated) >= MOST_CASES:
                raise WorkloadsError(f"it has more than {MOST_CASES} cases")
            member = SuiteCase(case, threads=threads, device=device, soak_s=soak_s)
            stated.setdefault(case, (member, entry.get("estimate_s")))
    for member in _scripts(raw, here, {case.workload for case in stated}):
        stated[member.case] = (member, member.estimate_s)
    if not stated:
        raise WorkloadsError("it has no cases; give at least one [[cases]] with workload and size")
    own = {key: raw[key] for key in OWN_KEYS if key in raw}
    _check_sessions(raw)
    return Suite(name, raw.get("title", name), _entries([*stated.values()], raw), **own)


def _check_sessions(raw: Mapping[str, Any]) -> None:
    sessions, repeats = raw.get("sessions", 1), raw.get("repeats", REPEATS)
    if not 1 <= sessions <= repeats:
        raise WorkloadsError(f"sessions={sessions} must be from 1 to the number of repeats, {repeats}")


def _scripts(raw: Mapping[str, Any], here: Path, taken: Collection[str]) -> list[SuiteCase]:
    """Return the cases of a suite's scripts and commands, with unique names.

    Only commands, and scripts that run to their end, can take all of their time.
    """
    members: dict[Case, SuiteCase] = {}
    named: dict[str, Script] = {}
    given = [(script_cases, entry) for entry in raw.get("scripts", [])]
    given += [(command_cases, entry) for entry in raw.get("commands", [])]
    for read, entry in given:
        for case, script in read(entry, here):
            if case.workload in taken or named.setdefault(case.workload, script) != script:
                raise WorkloadsError(f"name {case.workload!r} is used by two commands; give each its own")
            guess_s = raw.get("timeout_s", TIMEOUT_S) if script.whole or script.program else SCRIPT_ESTIMATE_S
            members[case] = SuiteCase(
                case,
                estimate_s=float(entry.get("estimate_s", guess_s)),
                threads=entry.get("threads", raw.get("threads")),
                device=device_of(entry),
                script=script,
                assumed="estimate_s" not in entry,
            )
    return [*members.values()]


def _entries(
    stated: Sequence[tuple[SuiteCase, float | None]], raw: Mapping[str, Any]
) -> tuple[SuiteCase, ...]:
    timeout_s, repeats = raw.get("timeout_s", TIMEOUT_S), raw.get("repeats", REPEATS)
    for entry, _ in stated:
        check_soak(entry, timeout_s)
    among = {entry.case for entry in counted([entry for entry, _ in stated], timeout_s)}
    sharing = [(entry, seconds) for entry, seconds in stated if entry.case in among]
    without = sum(seconds is None for _, seconds in sharing)
    share_s, minutes = ESTIMATE_S, raw.get("minutes")
    if minutes is not None and without:
        taken_s = sum((seconds or 0.0) + (entry.soak_s or 0.0) for entry, seconds in sharing)
        share_s = (minutes * 60 / repeats - taken_s) / without
    if share_s <= 0:
        raise WorkloadsError(f"minutes={minutes} is less than the sum of the cases' estimate_s and soak_s")
    return tuple(
        replace(entry, estimate_s=share_s if seconds is None else float(seconds)) for entry, seconds in stated
    )


def _expand(entry: Mapping[str, Any]) -> list[Case]:
    workload = find(entry["workload"])
    choices = choices_of(entry.get("size", {}))
    precisions, modes = entry.get("precision", ["fp32"]), entry.get("mode", [EAGER])
    lists = {"precision": precisions, "mode": modes, **choices}
    if (count := math.prod(map(len, lists.values()))) > MOST_CASES:
        raise WorkloadsError(
            f"a case of {workload.name} makes {count} cases of its lists {', '.join(lists)}; "
            f"at most {MOST_CASES} are possible"
        )
    if empty := [name for name, values in lists.items() if not values]:
        raise WorkloadsError(f"{empty[0]} is [], which makes no case; give at least one value")
    return [case for terms in itertools.product(precisions, modes) for case in workload.grid(choices, *terms)]
