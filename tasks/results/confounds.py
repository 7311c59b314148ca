"""What else differs between two sides, beside the machine. Layout is chosen, so it is no confound."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workloads.harness.probes.machine import machine_id
from workloads.harness.records.record import Record


def confounds(side: Sequence[Record], baseline: Sequence[Record]) -> tuple[str, ...]:
    """Differences in words, such as `torch: 2.13.0 against 2.12.1`.

    A fact that a side lacks is no difference. CUDA and the host count where both sides compute on an
    accelerator: on a CPU the one has no part in it, and the other is the machine that is compared.
    """
    on_cpu = any(record.device == "cpu" for record in (*side, *baseline))
    matches = []
    for name, read in (_ALWAYS if on_cpu else {**_ALWAYS, **_ACCELERATED}).items():
        ours, theirs = _values(side, read), _values(baseline, read)
        if ours and theirs and ours != theirs:
            matches.append(f"{name}: {' and '.join(ours)} against {' and '.join(theirs)}")
    for name, states in (("cache before each step", _caches), ("soak before the samples", _soaks)):
        ours, theirs = states(side), states(baseline)
        if ours and theirs and ours != theirs:
            matches.append(f"{name}: {' and '.join(ours)} against {' and '.join(theirs)}")
    return tuple(matches)


def _caches(records: Sequence[Record]) -> list[str]:
    """Return how caches were left before each step.

    Data that fit into one machine's cache and not into the other's are no confound.
    """
    return sorted({"emptied" if r.cache.state == "cold" else "as it was" for r in records if r.cache})


def _soaks(records: Sequence[Record]) -> list[str]:
    """Return whether repeats were soaked before their samples, in words."""
    return sorted({"yes" if r.wall.burst_s else "none" for r in records if r.wall})


def _values(records: Sequence[Record], read: Callable[[dict[str, Any]], str | None]) -> list[str]:
    return sorted({value for record in records if (value := read(record.environment))})


def _plain(name: str) -> Callable[[dict[str, Any]], str | None]:
    def read(environment: dict[str, Any]) -> str | None:
        value = environment.get(name)
        return None if value in (None, "") else str(value)

    return read


def _torch(environment: dict[str, Any]) -> str | None:
    """The version without its build: `+cpu` and `+cu128` say again what the device and cuda say."""
    return str(environment.get("torch") or "").partition("+")[0] or None


def _memory(environment: dict[str, Any]) -> str | None:
    """In whole GiB: kernels of one machine shape differ in what they keep for themselves."""
    size = environment.get("memory_total_bytes")
    return f"{size / 2**30:.0f} GiB" if isinstance(size, int | float) else None


_ALWAYS = {"torch": _torch, "Python": _plain("python")}
_ACCELERATED = {
    "CUDA": _plain("cuda"),
    "cuDNN": _plain("cudnn"),
    "driver": _plain("nvidia_driver"),
    "CPU": _plain("cpu_model"),
    "logical CPUs": _plain("logical_cpus"),
    "memory": _memory,
}


def machine_difference(ours: Sequence[Record], theirs: Sequence[Record]) -> str:
    """Return the known differences of hardware and driver in words; empty where there are none."""
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
    """Return the fingerprint of a machine that the other run did not use, where there is one."""
    return next((r.environment for r in records if machine_of(r) not in ids), records[0].environment)


def _short(name: str, *environments: Mapping[str, object]) -> bool:
    return all(isinstance(each.get(name), str | int | float | None) for each in environments)


def _id_of(name: str, environment: Mapping[str, object]) -> str:
    """Return the id of a machine with this one field: equal where no difference counts."""
    try:
        return machine_id({name: environment.get(name)})
    except (AttributeError, TypeError, ValueError, OverflowError):  # fingerprints come from other boxes
        return ""


def _ids(records: Sequence[Record]) -> set[str]:
    return {id_ for record in records if (id_ := machine_of(record))}


def machine_of(record: Record) -> str:
    """Return the id of a record's machine; empty if the fingerprint, which a box sent, is malformed."""
    try:
        return machine_id(record.environment) if record.environment else ""
    except (AttributeError, TypeError, ValueError, OverflowError):
        return ""
