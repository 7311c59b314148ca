"""gridbench pool: a work pool's base job template, made from its file in deployments/pools/."""

import json
import sys
from typing import Annotated

import typer
import yaml

from tasks.errors import GridbenchError
from tasks.planning.hardware import DEPLOYMENTS

Name = Annotated[str, typer.Argument(help="Of a file in deployments/pools/: gke or kubernetes")]
Setting = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A job variable of your cluster's own; may be repeated"),
]


def pool(name: Name, setting: Setting = None) -> None:
    """Print what `prefect work-pool create NAME --type kubernetes-jobs --base-job-template FILE` wants."""
    from infra.workers.kubernetes.pool import base_job_template, read_pool  # imports Prefect, which is slow

    folder = DEPLOYMENTS / "pools"
    known = sorted(path.stem for path in folder.glob("*.yaml"))
    if name not in known:
        raise GridbenchError(f"pool {name!r} is unknown: name one of {', '.join(known)}")
    try:
        template = base_job_template(read_pool(folder / f"{name}.yaml"), dict(map(_pair, setting or ())))
    except ValueError as error:
        raise GridbenchError(str(error)) from None
    json.dump(template, sys.stdout, indent=2)
    print()


def _pair(text: str) -> tuple[str, object]:
    """NAME=VALUE, the value in YAML: 4 is a number, {a: b} a mapping."""
    name, equals, value = text.partition("=")
    if not equals:
        raise GridbenchError(f"--set is {text!r}: write NAME=VALUE, such as namespace=bench")
    try:
        return name, yaml.safe_load(value)
    except yaml.YAMLError:
        raise GridbenchError(f"--set is {text!r}: the value is no YAML") from None
