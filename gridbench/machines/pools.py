"""The command `pool`."""

import json
import sys
from typing import Annotated, Any

import typer
import yaml

from infra.local.api import process_template
from tasks.errors import GridbenchError
from tasks.planning.hardware import DEPLOYMENTS
from tasks.planning.limits import LOCAL_POOL, RENTAL_POOL

PROCESS_POOLS = (LOCAL_POOL, RENTAL_POOL)
Name = Annotated[str, typer.Argument(help="gke or kubernetes, files of deployments/pools/; local or rental")]
Setting = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Job variable with a value for your cluster; can be given several times",
    ),
]


def pool(name: Name, setting: Setting = None) -> None:
    """Print the base job template of a Kubernetes pool."""
    if name in PROCESS_POOLS:
        if setting:
            raise GridbenchError(f"--set is {setting[0]!r}: a run sets nothing of pool {name}")
        return _print(process_template())
    from infra.workers.kubernetes.pool import base_job_template, read_pool  # imports Prefect, which is slow

    folder = DEPLOYMENTS / "pools"
    names = sorted([*PROCESS_POOLS, *(path.stem for path in folder.glob("*.yaml"))])
    if name not in names:
        raise GridbenchError(f"pool {name!r} is unknown: name one of {', '.join(names)}")
    try:
        template = base_job_template(read_pool(folder / f"{name}.yaml"), dict(map(_pair, setting or ())))
    except ValueError as error:
        raise GridbenchError(str(error)) from None
    return _print(template)


def _print(template: dict[str, Any]) -> None:
    json.dump(template, sys.stdout, indent=2)
    print()


def _pair(text: str) -> tuple[str, object]:
    """Parse NAME=VALUE; the value is YAML: 4 is a number, {a: b} a mapping."""
    name, equals, value = text.partition("=")
    if not equals:
        raise GridbenchError(f"--set is {text!r}: write NAME=VALUE, such as namespace=bench")
    try:
        return name, yaml.safe_load(value)
    except (yaml.YAMLError, RecursionError):
        raise GridbenchError(f"--set is {text!r}: the value is not YAML") from None
