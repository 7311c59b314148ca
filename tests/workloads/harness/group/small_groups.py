"""Small groups of processes that measure together."""

import sys
from dataclasses import replace
from pathlib import Path

from tests.workloads.harness.repeat.dying import wait_for
from workloads.harness.records.case import Case
from workloads.harness.records.record import Verdict
from workloads.harness.records.repeat import Repeat


def repeat_of(name, timeout_s=240.0, processes=2, **changes):
    case = Case.of(name, {"n": 64, "processes": processes})
    return replace(Repeat("a-run", "a-box", case, quick=True, timeout_s=timeout_s), **changes)


MEASURED = (Verdict.OK, Verdict.NOISY, Verdict.UNSTEADY, Verdict.IMPRECISE)
ROOT = Path(__file__).parents[4]
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone")


def pids_in(note, count=2):
    wait_for(lambda: len(list(note.iterdir())) >= count, 200)
    return [int(path.name) for path in note.iterdir()]


def ranks_in(note, count=2):
    pids_in(note, count)
    return {int(wait_for(path.read_text)): int(path.name) for path in note.iterdir()}
