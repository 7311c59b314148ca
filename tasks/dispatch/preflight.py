"""Whether a lane's machine can measure at all: looked at once in a job, before anything is measured."""

import subprocess
from collections.abc import Sequence

from workloads.harness.checks.preflight import Finding, shared_memory
from workloads.harness.records.repeat import Repeat

UNFIT = "Unfit"  # name of the lane's state then: no use in asking again
LOOK_S = 300.0  # importing torch from a cold disk takes a minute


def look(repeats: Sequence[Repeat], command: Sequence[str]) -> tuple[str, list[str]]:
    """Return why nothing can be measured here (empty where it can), and warnings.

    GPUs are looked at in a process of its own, since torch must not be loaded beside what is measured.
    """
    well, text = shared_memory()
    warnings = [] if well else [text]
    if not repeats or repeats[0].device != "cuda":
        return "", warnings
    wanted = max(repeat.case.params.get("processes", 1) for repeat in repeats)
    found = _ask([*command, "check", "--before", "cuda", "--gpus", str(wanted)])
    return "; ".join(text for fit, text in found if not fit and text not in warnings), warnings


def _ask(command: Sequence[str]) -> list[Finding]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LOOK_S, check=False)
    except subprocess.TimeoutExpired:
        return [(False, f"torch did not answer within {LOOK_S:.0f} s")]
    lines = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    found = [(word == "ok", text) for word, text in (line for line in lines if len(line) == 2)]
    if done.returncode and all(fit for fit, _ in found):
        return [(False, f"the look at its GPUs failed: {' '.join(done.stderr.split())[-200:]}")]
    return found
