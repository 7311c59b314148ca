"""The program `gridbench`: its commands in groups, and one sentence for every mistake."""

import signal
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

from gridbench import check, doctor, prices, read
from gridbench.machines import image, lambda_cloud, pools, ssh, stacks
from gridbench.run import command as measure
from gridbench.run import fits, train
from gridbench.terminal import warn
from gridbench.watch import alerts, bisect, gate, history, reference
from infra.errors import InfraError
from tasks.errors import GridbenchError

GROUPS: dict[str, dict[str, Callable[..., None] | typer.Typer]] = {
    "Measure": {"run": measure.run, "train": train.train, "fits": fits.fits, "resume": measure.resume},
    "Read results": {
        "show": read.show,
        "report": read.report,
        "compare": history.compare,
        "site": history.site,
        "history": history.history,
    },
    "Watch for regressions": {
        "gate": gate.gate,
        "bisect": bisect.bisect,
        "alert": alerts.alert,
        "reference": reference.reference,
    },
    "Judge published numbers": {"check": check.check, "prices": prices.app},
    "Machines": {
        "up": stacks.up_app,
        "status": stacks.status_app,
        "down": stacks.down_app,
        "lambda": lambda_cloud.app,
        "ssh": ssh.app,
        "image": image.app,
        "pool": pools.pool,
    },
    "Diagnose": {"doctor": doctor.doctor},
}
SETTINGS = {"train": {"allow_interspersed_args": False}}  # options behind the script are the script's
OLD_NAMES: dict[str, Callable[..., None]] = {  # scripts and monitors use them
    "rented": lambda_cloud.rented,
    "give-back": lambda_cloud.give_back,
    "janitor": lambda_cloud.janitor,
}


class Grouped(TyperGroup):
    """The commands in the order of their groups; Typer alone puts nested ones last."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [name for commands in GROUPS.values() for name in commands] + list(OLD_NAMES)


app = typer.Typer(
    cls=Grouped,
    help="Which machine should run this torch workload, at what speed and at what price?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for group, commands in GROUPS.items():
    for name, command in commands.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=group)
        else:
            app.command(name, rich_help_panel=group, context_settings=SETTINGS.get(name))(command)
for name, function in OLD_NAMES.items():
    app.command(name, hidden=True)(function)


def main() -> None:
    """Run the program; a mistake of the user's is one sentence, never a traceback."""
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        app()
    except (GridbenchError, InfraError) as error:
        warn(f"error: {error}")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
