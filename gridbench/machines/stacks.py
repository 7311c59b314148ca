"""The commands `up`, `status` and `down`."""

import os
import time
from typing import Annotated

import typer

from gridbench.machines import aws, gke
from gridbench.machines.lambda_cloud import sweep_overdue
from gridbench.terminal import Results, console
from tasks.errors import GridbenchError
from tasks.store.address import DEFAULT, RESULTS

up_app = typer.Typer(invoke_without_command=True)
status_app = typer.Typer(no_args_is_help=True, help="Show the resources in a cloud and their cost.")
down_app = typer.Typer(
    no_args_is_help=True, help="Delete everything in a cloud and check that nothing is left."
)
up_app.command("aws")(aws.up_aws)
up_app.command("gke")(gke.up_gke)
status_app.command("aws")(aws.status_aws)
status_app.command("gke")(gke.status_gke)
down_app.command("aws")(aws.down_aws)
down_app.command("gke")(gke.down_gke)


@up_app.callback()
def up(
    context: typer.Context,
    port: Annotated[int | None, typer.Option(help="Port of the UI; a free one by default")] = None,
    results: Results = DEFAULT,
) -> None:
    """Start a local server with workers, or set up a cloud."""
    if context.invoked_subcommand:
        return
    from gridbench.run.session import pools_of_a_stack, session

    if results.block:
        raise GridbenchError(
            f"results={results} is a block: name it in the form of each run; `up` takes a folder"
        )
    if os.environ.get("LAMBDA_API_KEY"):
        sweep_overdue()
    # For runs that the UI and schedules start: they do not name a folder.
    os.environ[RESULTS] = results.parameter
    with session(console.print, results.folder, port, schedules=True, pools=pools_of_a_stack()) as api:
        if api.lasts and results != DEFAULT:
            console.print("Runs from its UI go to the results folder that it was started with.")
        for line in (api.ui_text, api.settings_text, "Ctrl-C stops it."):
            console.print(line, soft_wrap=True, highlight=False, markup=False)
        while True:
            time.sleep(5)
            if sentence := api.check():
                console.print(sentence, markup=False)
