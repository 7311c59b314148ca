"""The command `command`."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from gridbench.run.command import Baseline, Budget, DryRun, Hardware
from gridbench.run.train import Data, Image, Keep, Repeats, Sizes, measure_own, paths_here
from gridbench.terminal import Results
from tasks.errors import GridbenchError
from tasks.own_script import OwnCommand, sizes_of
from tasks.schema import validated
from tasks.store.address import DEFAULT
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.program import EXAMPLE
from workloads.harness.repeat.commands import READY, READY_TIMEOUT_S, pairs_of, server_table

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="-- COMMAND…",
        help="The program and its arguments: ./simulate --cells {cells} --seed {seed}; with --serve, the client",
        show_default=False,
    ),
]
Metric = Annotated[
    list[str] | None,
    typer.Option(
        help=f"A number in its output, such as {EXAMPLE}; repeat for several. Without any, the time of a call"
    ),
]
WarmUps = Annotated[int | None, typer.Option(help="Calls in each repeat before the one that counts")]
Folder = Annotated[Path, typer.Option(help="Folder the command runs in; all code in it is sent along")]
Packages = Annotated[
    str | None,
    typer.Option(help="File in the folder that lists Python packages, such as requirements.txt"),
]
Variable = Annotated[
    list[str] | None, typer.Option(help="A variable of its process, NAME=VALUE; not for secrets")
]
Name = Annotated[str | None, typer.Option(help="Name of the case; by default the name of the program")]
Serve = Annotated[
    str | None,
    typer.Option(
        help="The server that the command calls, such as 'vllm serve MODEL --port {port}'; without a command, "
        "our own load generator calls it"
    ),
]
Ready = Annotated[
    str | None, typer.Option(help=f"Address that answers with 200 once it serves; {READY} by default")
]
ReadyTimeout = Annotated[
    float | None,
    typer.Option(help=f"Seconds until it is ready; {READY_TIMEOUT_S:g} by default", min=0.001),
]
Slo = Annotated[
    list[str] | None,
    typer.Option(help="A promised latency, such as ttft_p99_ms=500: the largest rate that keeps it is found"),
]
Load = Annotated[list[str] | None, typer.Option(help="An option of the load, such as prompt_tokens=128-512")]
TimeLimit = Annotated[
    int | None, typer.Option(help="Time limit of one repeat in seconds, warm-up included; 600 by default")
]


def command(
    words: Words = None,
    on: Hardware = None,
    metric: Metric = None,
    size: Sizes = None,
    warm_ups: WarmUps = None,
    folder: Folder = Path(),
    packages: Packages = None,
    data: Data = None,
    env: Variable = None,
    image: Image = None,
    keep: Keep = None,
    name: Name = None,
    serve: Serve = None,
    ready: Ready = None,
    ready_timeout_s: ReadyTimeout = None,
    slo: Slo = None,
    load: Load = None,
    baseline: Baseline = None,
    repeats: Repeats = None,
    timeout_s: TimeLimit = None,
    budget_usd: Budget = 5.0,
    results: Results = DEFAULT,
    dry_run: DryRun = False,
) -> None:
    """Measure any command on machines: its time, and the numbers in its output.

    The command writes a suite file into the results folder; `gridbench run PATH` measures it again.
    """
    try:
        variables = pairs_of(env or [])
        server = server_table(serve, ready, ready_timeout_s, slo or [], load or [])
    except WorkloadsError as error:
        raise GridbenchError(str(error)) from None
    given = {
        "run": shlex.join(words) if words else None,
        **paths_here(folder, data, keep),
        "name": name,
        "metrics": metric or [],
        "size": sizes_of(size or []),
        "warm_ups": warm_ups or None,
        "packages": packages,
        "image": image,
        "env": variables,
        "repeats": repeats,
        "timeout_s": timeout_s,
        **server,
    }
    own = validated(OwnCommand, given, "command")
    measure_own(own, on, baseline, budget_usd, results, dry_run)
