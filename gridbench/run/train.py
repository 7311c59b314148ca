"""The command `train`: measure a user's own script."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from gridbench.run.box import with_boxes
from gridbench.run.candidates import candidates
from gridbench.run.command import Baseline, Budget, DryRun, Hardware, plan_and_measure
from gridbench.terminal import Results, current_folder, say
from tasks.own_script import OwnCommand, OwnScript, sizes_of, write_suite
from tasks.planning.machines import baseline_of, machines_of
from tasks.planning.request import RunRequest
from tasks.schema import validated
from tasks.store.address import DEFAULT, ResultsAddress
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
    list[str] | None,
    typer.Option(help="Values of a placeholder, such as batch=16,32; repeat for several placeholders"),
]
Data = Annotated[
    str | None,
    typer.Option(help="Value of the placeholder {data}: a folder on the machine or an s3:// address"),
]
Keep = Annotated[
    Path | None,
    typer.Option(
        help="Folder on the machine that gets the files that each repeat writes; else they are gone"
    ),
]
Image = Annotated[
    str | None,
    typer.Option(
        help="Container image to measure in, on machines with containers; it has Python 3.11 or newer with pip"
    ),
]
Offers = Annotated[
    bool,
    typer.Option(
        "--offers",
        help="Measure on one machine, predict the others and all offers, and measure only those that can be the "
        "fastest or the cheapest; without --on, of all machines with GPUs that are reached from here",
    ),
]
Repeats = Annotated[int | None, typer.Option(help="Fresh processes per size; 3 by default")]
Whole = Annotated[
    bool,
    typer.Option("--whole", help="Let the script run to its end instead of stopping it once it is measured"),
]
Steps = Annotated[int | None, typer.Option(help="Length of the whole job in steps, to predict its time")]
Epochs = Annotated[int | None, typer.Option(help="Length of the whole job in epochs")]
Through = Annotated[
    int | None,
    typer.Option(help="Number of these steps or epochs to measure, however long that takes, to predict"),
]
StepOf = Annotated[
    str | None,
    typer.Option(
        help="The end of a step, if it cannot be found: AdamW, Adam:2, backward, forward, loader, mark"
    ),
]
Samples = Annotated[int | None, typer.Option(help="Samples of a step, if they cannot be found")]
Folder = Annotated[Path, typer.Option(help="Folder the script runs in; all code in it is sent along")]
Packages = Annotated[
    str | None, typer.Option(help="File in the folder that lists its packages, such as requirements.txt")
]
Processes = Annotated[int | None, typer.Option(help="Number of ranks, as with torchrun")]
Name = Annotated[str | None, typer.Option(help="Name of the case; by default the name of the script's file")]
TimeLimit = Annotated[int | None, typer.Option(help="Time limit of one process in seconds; 600 by default")]


def train(
    command: Words,
    on: Hardware = None,
    offers: Offers = False,
    size: Sizes = None,
    steps: Steps = None,
    epochs: Epochs = None,
    through: Through = None,
    step_of: StepOf = None,
    samples: Samples = None,
    folder: Folder = Path(),
    packages: Packages = None,
    data: Data = None,
    processes: Processes = None,
    whole: Whole = False,
    image: Image = None,
    keep: Keep = None,
    name: Name = None,
    baseline: Baseline = None,
    repeats: Repeats = None,
    timeout_s: TimeLimit = None,
    budget_usd: Budget = 5.0,
    results: Results = DEFAULT,
    dry_run: DryRun = False,
) -> None:
    """Measure your own training script and predict its whole job.

    The command writes a suite file into the results folder; `gridbench run PATH` measures it again.
    """
    given = {
        "run": shlex.join(command),
        **paths_here(folder, data, keep),
        "name": name,
        "size": sizes_of(size or []),
        "packages": packages,
        "image": image,
        "steps": steps,
        "epochs": epochs,
        "through": through,
        "step_of": step_of,
        "samples": samples,
        "processes": processes,
        "whole": whole,
        "repeats": repeats,
        "timeout_s": timeout_s,
    }
    own = validated(OwnScript, given, "train")
    measure_own(own, on, baseline, budget_usd, results, dry_run, offers)


def paths_here(folder: Path, data: str | None, keep: Path | None) -> dict[str, str | None]:
    here = current_folder()
    return {
        "folder": str((here / folder.expanduser()).resolve()),
        "data": data if data is None or data.startswith(S3) else str(here / Path(data).expanduser()),
        "keep": str(here / keep.expanduser()) if keep else None,
    }


def measure_own(
    own: OwnScript | OwnCommand,
    on: list[str] | None,
    baseline: str | None,
    budget_usd: float,
    results: ResultsAddress,
    dry_run: bool,
    shortlist: bool = False,
) -> None:
    """Write the suite of a script or another command, and measure it, by default on this machine.

    A `shortlist` measures some of the machines, by default of all reachable ones with GPUs.
    """
    ranks = own.processes if isinstance(own, OwnScript) else 1
    request = with_boxes(
        RunRequest(
            hardware=tuple(on or (candidates(ranks or 1) if shortlist else this_machine())),
            shortlist=shortlist,
            baseline=baseline,
            budget_usd=budget_usd,
            results=results.parameter,
        )
    )
    baseline_of(baseline, machines_of(request))  # check names first, so that a mistake leaves no suite behind
    path = write_suite(own, results.folder)
    say(f"suite: {path}")
    plan_and_measure(request.model_copy(update={"suite": str(path)}), results, dry_run)


def this_machine() -> list[str]:
    from workloads.harness.probes.device_here import device_here

    return ["local-cuda"] if device_here() == "cuda" else ["local-cpu"]
