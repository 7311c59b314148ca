"""The command `confirm`."""

from typing import Annotated

import typer

from gridbench.run.command import Budget, DryRun, measure_plan
from gridbench.terminal import Results, RunName, say
from tasks.planning.request import RunRequest
from tasks.results.format import cases_text, listed
from tasks.store.address import DEFAULT
from tasks.store.bucket import find


def confirm(
    name: RunName,
    repeats: Annotated[
        int | None, typer.Option(help="Fresh processes per cell; by default those of the run")
    ] = None,
    budget_usd: Budget = 5.0,
    results: Results = DEFAULT,
    dry_run: DryRun = False,
) -> None:
    """Measure again what decides a run's answer.

    The best machine and its rivals are measured in the cases that make nearly all of their difference: on other
    boxes if they are rented, on the same ones if they are not. The run itself stays as it is.

    Exit codes:

    0: confirmed: the new session alone shows the same

    1: refuted: it shows the opposite, or excludes the whole interval of the lead and shows none

    2: an argument is wrong

    3: open: it is not decided, or not everything was measured
    """
    # it imports the modules that read a run, which is slow
    from tasks.confirmed_run import plan_of_confirmation

    store = find(results, name)
    if store.plan.confirms:
        say(f"{store.plan.run} confirms {store.plan.confirms}, whose answer is measured again.")
        store = find(results, store.plan.confirms)
    plan, claims = plan_of_confirmation(store, repeats)
    say(
        f"Measured again, in {cases_text(len(plan.cases), len(store.plan.cases))}: {listed([c.text for c in claims])}."
    )
    request = RunRequest(budget_usd=budget_usd, results=results.parameter)
    measure_plan(plan, request, results, dry_run)
