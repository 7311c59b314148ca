"""Controls: a watched repeat is measured again in a frozen reference environment.

A slow box slows both, slower code only the watched one.
"""

import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from workloads.harness.records.parts import Control
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.repeat.runs import COMMAND, Say, run_repeat

# Variables that would lead a reference's Python, or that of its ranks, to code that is not its own.
STRAYS = ("PYTHONPATH", "PYTHONHOME", "GRIDBENCH_WORKLOADS")
NOT_FROZEN = (
    "the reference command must run frozen code, not, for example, the checkout; give the command that "
    "`gridbench reference FOLDER` prints"
)


def run_with_control(
    repeat: Repeat,
    lock: int,
    say: Say,
    reference: Sequence[str],
    command: Sequence[str] = COMMAND,
) -> Record:
    """Measure a repeat and its control, in alternating order; without a time there is no control after it.

    Both are fresh processes: a forked one has other pages in memory, which can change its times.
    """
    first = repeat.repeat % 2 == 0  # the second one finds a warmer box
    return _together(
        first,
        lambda: run_repeat(repeat, lock, say, command),
        lambda: run_control(repeat, lock, say, reference),
    )


def run_in_turns(repeat: Repeat, own: Callable[[], Record], other: Callable[[], Record]) -> Record:
    """Measure a repeat by `own` and, as its control, by `other`, in random order."""

    def control() -> Control:
        try:
            record = other()
        except OSError as error:
            why = f"the command of the version can't be started ({error.strerror or error})"
            return Control("", Verdict.UNSUPPORTED.value, (why,))
        return _control(record)

    return _together(random.Random(repeat.seed).random() < 0.5, own, control)


def _together(is_after: bool, own: Callable[[], Record], control: Callable[[], Control]) -> Record:
    before = control() if is_after else None
    record = own()
    if not is_after and record.compute_s is not None:
        before = control()
    return replace(record, control=before)


def run_control(repeat: Repeat, lock: int, say: Say, reference: Sequence[str]) -> Control:
    say(f"{repeat.id}: its control, by {reference[0]}")
    try:
        record = run_repeat(replace(repeat, profile=False), lock, say, reference, environ_of_reference())
    except OSError as error:
        why = f"the reference command {reference[0]} can't be started ({error.strerror or error})"
        advice = "correct `reference` in the hardware file, or create one with `gridbench reference FOLDER`"
        return Control("", Verdict.UNSUPPORTED.value, (f"{why}; {advice}",))
    if record.environment and not record.environment.get("reference"):
        return replace(
            _control(record), verdict=Verdict.UNSUPPORTED.value, reasons=(NOT_FROZEN,), compute_s=None
        )
    return _control(record)


def environ_of_reference(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return variables with which a reference's Python finds only its own modules."""
    return {name: value for name, value in environ.items() if name not in STRAYS} | {"PYTHONSAFEPATH": "1"}


def _control(record: Record) -> Control:
    return Control(
        str(record.environment.get("reference") or ""),
        record.verdict.value,
        record.reasons,
        record.compute_s,
        record.environment_id,
        record.started_at,
    )
