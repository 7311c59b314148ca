"""Predict a script's memory by its first steps, without values if possible."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from workloads.harness.checks.fakes import HOST, HOST_DEVICE, faked, replaced
from workloads.harness.checks.fits import NCCL_BYTES, Needs, StepWork
from workloads.harness.engine.count import counted
from workloads.harness.records.case import Case
from workloads.harness.records.script import Script
from workloads.harness.repeat.copies import fresh_copy
from workloads.harness.script.command import filled
from workloads.harness.script.main_module import MARKS, first_folder, make_room, run_as_main
from workloads.harness.script.measurement import EnoughError

STEPS = 2  # the first makes the optimizer's state, which is there in the whole of the second
OURS = dict(num_workers=0, prefetch_factor=None, multiprocessing_context=None, persistent_workers=False)


def script_needs(script: Script, case: Case, device: str, with_step: bool = False) -> Needs:
    """Run a script's first steps in this process, which is then unusable."""
    with fresh_copy(Path(script.folder)) as copy:
        needs = _needs_in(copy.folder, script, case, device, with_step)
        return replace(needs, reason=copy.there(needs.reason)) if needs.reason else needs


def _needs_in(folder: Path, script: Script, case: Case, device: str, with_step: bool) -> Needs:
    words = filled(script, case)
    os.chdir(folder)
    make_room(first_folder(words))
    marks: Any = ModuleType(MARKS)
    left, seen, step = STEPS, (0.0, 0), None

    def stepped(*of: object) -> None:
        nonlocal left, seen, step
        left, (moved_bytes, flops) = left - 1, fakes.moved()
        if counts:
            step = StepWork(counts.flops - seen[0] + flops, moved_bytes, counts.launches - seen[1])
            seen = counts.flops, counts.launches
        if not left:
            raise EnoughError

    marks.step = stepped
    sys.modules[MARKS] = marks
    reason = f"the script ended before its optimizer took {STEPS} steps"
    with (
        faked(script.processes, is_host_gpu=device == "cuda") as fakes,
        counted() if with_step else nullcontext() as counts,
        _watched(stepped),
    ):
        try:
            run_as_main(words)
        except EnoughError:
            group_bytes = NCCL_BYTES if device == "cuda" and script.processes > 1 else 0
            peak_bytes = fakes.peak_bytes(HOST_DEVICE) + group_bytes
            return Needs(device, fakes.tensors[HOST], peak_bytes, step=step)
        except BaseException as error:  # raised by the script, or by a fake tensor that needs values
            first = next(iter(str(error).splitlines()), "")
            reason = f"{type(error).__name__}: {first}"[:200]
    return Needs(device, None, None, reason)


def _watched(stepped: Any) -> ExitStack:
    """Observe optimizer steps, and load data here: loader processes would compute with values."""
    from torch.optim.optimizer import register_optimizer_step_post_hook
    from torch.utils.data import DataLoader

    stack, real = ExitStack(), DataLoader.__init__

    def init(loader: Any, *args: Any, **options: Any) -> None:
        names = ("num_workers", "collate_fn", "pin_memory", "drop_last", "timeout", "worker_init_fn")
        by_position = dict(zip(names, args[5:], strict=False))  # the arguments after `batch_sampler`
        real(loader, *args[:5], **(by_position | options | OURS))

    stack.enter_context(replaced(DataLoader, "__init__", init))
    stack.callback(register_optimizer_step_post_hook(stepped).remove)
    return stack
