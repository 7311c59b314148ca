"""How much memory a user's own script takes: its first steps, computed without values where that works."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from types import ModuleType
from typing import Any

from workloads.harness.checks.fake_ranks import replaced
from workloads.harness.checks.fakes import HOST, faked
from workloads.harness.checks.fits import Needs
from workloads.harness.checks.workspace import HOST_DEVICE
from workloads.harness.records.case import Case
from workloads.harness.records.script import Script
from workloads.harness.script.command import filled
from workloads.harness.script.main_module import MARKS, first_folder, make_room, run_as_main
from workloads.harness.script.measurement import EnoughError

STEPS = 2  # the first makes the optimizer's state, which is there in the whole of the second
OURS = {
    "num_workers": 0,
    "prefetch_factor": None,
    "multiprocessing_context": None,
    "persistent_workers": False,
}


def script_needs(script: Script, case: Case, device: str) -> Needs:
    """Run a script's first steps in this process, which is good for nothing else afterwards.

    It sees no GPU, so on one all its tensors count as there. It may write files and read data until then, as
    whenever it is run.
    """
    words = filled(script, case)
    os.chdir(script.folder)
    make_room(first_folder(words))
    marks: Any = ModuleType(MARKS)
    left = STEPS

    def stepped(*of: object) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise EnoughError

    marks.step = stepped
    sys.modules[MARKS] = marks
    reason = f"the script ended before its optimizer took {STEPS} steps"
    with faked(script.processes) as fakes, _watched(stepped):
        try:
            run_as_main(words)
        except EnoughError:
            peak = fakes.peak_bytes(HOST_DEVICE) if device == "cpu" else fakes.tensors[HOST]
            return Needs(device, fakes.tensors[HOST], peak)
        except BaseException as error:  # the script's own, or of a fake that needs values
            first = next(iter(str(error).splitlines()), "")
            reason = f"{type(error).__name__}: {first}"[:200]
    return Needs(device, None, None, reason)


def _watched(stepped: Any) -> ExitStack:
    """See the steps of optimizers, and load data in this process: another one would compute with values."""
    from torch.optim.optimizer import register_optimizer_step_post_hook
    from torch.utils.data import DataLoader

    stack, real = ExitStack(), DataLoader.__init__

    def init(loader: Any, *args: Any, **options: Any) -> None:
        real(loader, *args[:5], **(_named(args[5:]) | options | OURS))

    stack.enter_context(replaced(DataLoader, "__init__", init))
    stack.callback(register_optimizer_step_post_hook(stepped).remove)
    return stack


def _named(rest: tuple[Any, ...]) -> dict[str, Any]:
    """Return what was given to a loader by position behind `batch_sampler`."""
    names = ("num_workers", "collate_fn", "pin_memory", "drop_last", "timeout", "worker_init_fn")
    return dict(zip(names, rest, strict=False))
