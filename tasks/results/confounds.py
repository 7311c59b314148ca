"""Differences between two sides other than the machine. Layout is chosen, so it does not count."""

from collections.abc import Callable, Mapping, Sequence

from workloads.harness.probes.machine import machine_id
from workloads.harness.records.record import Record

SHORT = 12  # digits of an id that are shown


def confounds(side: Sequence[Record], baseline: Sequence[Record]) -> tuple[str, ...]:
    """Return such as `torch: 2.13.0 against 2.12.1`.

    Unknown facts are not differences. CUDA and the host count only if both sides use an accelerator.
    """
    on_cpu = any(record.device == "cpu" for record in (*side, *baseline))
    names = _ALWAYS if on_cpu else _ALWAYS | _ACCELERATED
    found = []
    for read in (lambda record: _facts(record, names), _conditions):
        ours, theirs = _values(side, read), _values(baseline, read)
        for name, values in ours.items():
            if name in theirs and values != theirs[name]:
                found.append(f"{name}: {' and '.join(values)} against {' and '.join(theirs[name])}")
    return tuple(found)


def _values(records: Sequence[Record], read: Callable[[Record], dict[str, str]]) -> dict[str, list[str]]:
    values: dict[str, set[str]] = {}
    for record in records:
        for name, text in read(record).items():
            values.setdefault(name, set()).update({text} - {""})
    return {name: sorted(texts) for name, texts in values.items() if texts}


def _facts(record: Record, names: Mapping[str, str]) -> dict[str, str]:
    known = {name: record.environment.get(key) for name, key in names.items()}
    facts = {name: "" if value is None else str(value) for name, value in known.items()}
    facts["torch"] = facts["torch"].partition("+")[0]  # without its build, which repeats device and CUDA
    if "memory" in known:  # whole GiB, because kernels of one machine shape reserve different amounts
        size = known["memory"]
        facts["memory"] = f"{size / 2**30:.0f} GiB" if isinstance(size, int | float) else ""
    return facts


def _conditions(record: Record) -> dict[str, str]:
    """Return conditions without data that fit into only one machine's cache: they do not confound."""
    cache, wall, script = record.cache, record.wall, record.script
    state = ("emptied" if cache.state == "cold" else "as it was") if cache else ""
    return {
        "other code": script.code.rpartition(":")[2][:SHORT] if script and script.code else "",
        "cache before each step": state,
        "soak before the samples": ("yes" if wall.burst_s else "none") if wall else "",
    }


_ALWAYS = {"torch": "torch", "Python": "python"}
_ACCELERATED = {
    "CUDA": "cuda",
    "cuDNN": "cudnn",
    "driver": "nvidia_driver",
    "CPU": "cpu_model",
    "logical CPUs": "logical_cpus",
    "memory": "memory_total_bytes",
}


def machine_difference(ours: Sequence[Record], theirs: Sequence[Record]) -> str:
    """Return differences of hardware and driver; else empty."""
    if not (_ids(ours) and _ids(theirs)) or _ids(ours) == _ids(theirs):
        return ""
    now, before = _environment_unlike(ours, _ids(theirs)), _environment_unlike(theirs, _ids(ours))
    names = [name for name in dict.fromkeys([*now, *before]) if _id_of(name, now) != _id_of(name, before)]
    words = [
        f"{name} {now.get(name)} against {before.get(name)}" for name in names if _short(name, now, before)
    ]
    words += [name for name in names if not _short(name, now, before)]
    return ", ".join(words) or "several machines took part"


def _environment_unlike(records: Sequence[Record], ids: set[str]) -> Mapping[str, object]:
    return next((r.environment for r in records if machine_of(r) not in ids), records[0].environment)


def _short(name: str, *environments: Mapping[str, object]) -> bool:
    return all(isinstance(each.get(name), str | int | float | None) for each in environments)


def _id_of(name: str, environment: Mapping[str, object]) -> str:
    try:
        return machine_id({name: environment.get(name)})
    except (AttributeError, TypeError, ValueError, OverflowError):  # a fingerprint can have any content
        return ""


def _ids(records: Sequence[Record]) -> set[str]:
    return {id_ for record in records if (id_ := machine_of(record))}


def machine_of(record: Record) -> str:
    """Return a machine's id; empty if malformed."""
    try:
        return machine_id(record.environment) if record.environment else ""
    except (AttributeError, TypeError, ValueError, OverflowError):
        return ""
