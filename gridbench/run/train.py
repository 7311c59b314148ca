"""Measure a user's own script: the command `train`."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from gridbench.run.box import BOX, with_boxes
from gridbench.run.command import Budget, plan_and_measure
from gridbench.run.reach import for_flow
from gridbench.terminal import Results, say
from tasks.own_script import OwnScript, sizes_of, write_suite
from tasks.planning.hardware import hardware_names
from tasks.planning.machines import baseline_of, machines_of
from tasks.planning.request import RunRequest
from tasks.schema import validated
from tasks.store.bucket import folder_of
from tasks.store.store import DEFAULT
from workloads.harness.repeat.scripts import S3

Words = Annotated[
    list[str],
    typer.Argument(
        metavar="-- COMMAND…",
        help="The script and its arguments: train.py --batch {batch}, or -m package.module",
        show_default=False,
    ),
]
Sizes = Annotated[
    list[str] | None, typer.Option(help="Values of a placeholder: batch=16,32; several times for several")
]


def train(
    command: Words,
    on: Annotated[
        list[str] | None,
        typer.Option(help=f"Hardware, several times for several: {', '.join(hardware_names())}; or {BOX}"),
    ] = None,
    size: Sizes = None,
    steps: Annotated[int | None, typer.Option(help="Length of the whole job, to predict its time")] = None,
    epochs: Annotated[int | None, typer.Option(help="The same, in epochs")] = None,
    folder: Annotated[Path, typer.Option(help="Where the script runs; all code in it comes along")] = Path(),
    packages: Annotated[
        str | None, typer.Option(help="File in the folder that names its packages, such as requirements.txt")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Folder of the machine or s3:// address, for the placeholder {data}")
    ] = None,
    processes: Annotated[int | None, typer.Option(help="Ranks that train together, as torchrun does")] = None,
    whole: Annotated[bool, typer.Option("--whole", help="Let it run to its end, untouched")] = False,
    name: Annotated[
        str | None, typer.Option(help="Name of the workload; the script's file name by default")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="What speedups are taken against; the first by default")
    ] = None,
    repeats: Annotated[int | None, typer.Option(help="Fresh processes per size, 3 by default")] = None,
    timeout_s: Annotated[int | None, typer.Option(help="Longest time of one, 600 by default")] = None,
    budget_usd: Budget = 5.0,
    results: Results = DEFAULT,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop")] = False,
) -> None:
    """Measure your own training script and predict its whole job.

    The suite that this writes is kept in the results folder, and `gridbench run PATH` measures it again.
    """
    here = Path.cwd()
    given = {
        "run": shlex.join(command),
        "folder": str((here / folder.expanduser()).resolve()),
        "name": name,
        "size": sizes_of(size or []),
        "packages": packages,
        "data": data if data is None or data.startswith(S3) else str(here / Path(data).expanduser()),
        "steps": steps,
        "epochs": epochs,
        "processes": processes,
        "whole": whole,
        "repeats": repeats,
        "timeout_s": timeout_s,
    }
    request = with_boxes(
        RunRequest(
            hardware=tuple(on or this_machine()),
            baseline=baseline,
            budget_usd=budget_usd,
            results=for_flow(results),
        )
    )
    baseline_of(baseline, machines_of(request))  # a mistake in a name leaves no suite behind
    path = write_suite(validated(OwnScript, given, "train"), folder_of(results))
    say(f"suite {path}")
    plan_and_measure(request.model_copy(update={"suite": str(path)}), results, dry_run)


def this_machine() -> list[str]:
    """Return the hardware of this machine that a training would take: its GPU, or its CPU without one."""
    from gridbench.doctor import torch_sees_cuda

    return ["local-cuda"] if torch_sees_cuda() else ["local-cpu"]
