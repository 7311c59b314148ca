"""Check that a job's machine can measure at all."""

import subprocess
from collections.abc import Sequence

from tasks.planning.hardware import load_gpus, names_of
from tasks.plausibility.gpu_names import models_called, other_model
from workloads.harness.checks.preflight import NO_GPU, Finding, gpu_names, shared_memory
from workloads.harness.records.repeat import Repeat
from workloads.harness.repeat.limits import processes_of

UNFIT = "Unfit"  # name of the lane's state if it can't: a retry is useless
LOOK_S = 300.0  # importing torch from a cold disk takes a minute


def check(repeats: Sequence[Repeat], command: Sequence[str]) -> tuple[str, list[str]]:
    """Return why nothing can be measured here (else empty), and warnings.

    Another process checks GPUs, so that torch is not loaded next to the measured one.
    """
    enough, text = shared_memory()
    warnings = [] if enough else [text]
    if not repeats or repeats[0].device != "cuda":
        return "", warnings
    other, unsure = _gpu(repeats[0])
    warnings += [unsure] if unsure else []
    if other:
        return other, warnings
    if all(repeat.script and repeat.script.program for repeat in repeats):  # many images lack torch
        return "" if gpu_names() else NO_GPU, warnings
    gpus = max(processes_of(repeat.case, repeat.script) for repeat in repeats)
    findings = _findings([*command, "check", "--before", "cuda", "--gpus", str(gpus)])
    return "; ".join(text for fit, text in findings if not fit and text not in warnings), warnings


def _gpu(repeat: Repeat) -> tuple[str, str]:
    names = gpu_names() if repeat.gpu else []
    if not repeat.gpu or not names:
        return "", ""
    called = names_of(load_gpus())
    if other := other_model(repeat.gpu, names, called):
        hindrance = (
            f"this machine has {names[0]} ({other}), and hardware {repeat.hardware} names gpu: {repeat.gpu}; "
            "mend gpu and price of its file, or have its pool give the GPU that they are of"
        )
        return hindrance, ""
    if repeat.gpu not in called or any(repeat.gpu in models_called(name, called) for name in names):
        return "", ""
    doubt = (
        f"the driver calls this machine's GPU {names[0]}, which does not match gpu: {repeat.gpu} of hardware "
        f"{repeat.hardware} ({called[repeat.gpu]} in gpus.yaml), so its peak rates can be those of another card"
    )
    return "", doubt


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
