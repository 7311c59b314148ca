"""The preflight of a lane job: check once that its machine can measure at all."""

import subprocess
from collections.abc import Sequence

from workloads.harness.checks.preflight import Finding, shared_memory
from workloads.harness.records.repeat import Repeat

UNFIT = "Unfit"  # name of the lane's state if it can't: a retry is useless
LOOK_S = 300.0  # importing torch from a cold disk takes a minute


def check(repeats: Sequence[Repeat], command: Sequence[str]) -> tuple[str, list[str]]:
    """Return why nothing can be measured here (empty where it can), and warnings.

    GPUs are checked in a separate process, since torch must not be loaded beside the measured process.
    """
    enough, text = shared_memory()
    warnings = [] if enough else [text]
    if not repeats or repeats[0].device != "cuda":
        return "", warnings
    gpus = max(repeat.case.params.get("processes", 1) for repeat in repeats)
    findings = _findings([*command, "check", "--before", "cuda", "--gpus", str(gpus)])
    return "; ".join(text for fit, text in findings if not fit and text not in warnings), warnings


def _findings(command: Sequence[str]) -> list[Finding]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LOOK_S, check=False)
    except subprocess.TimeoutExpired:
        return [(False, f"torch did not answer within {LOOK_S:.0f} s")]
    lines = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    findings = [(word == "ok", text) for word, text in (line for line in lines if len(line) == 2)]
    if done.returncode and all(fit for fit, _ in findings):
        return [(False, f"the check of its GPUs failed: {' '.join(done.stderr.split())[-200:]}")]
    return findings
