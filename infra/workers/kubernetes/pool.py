"""Work pools as data: the base job template of a file in `deployments/pools/`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from infra.workers.base.job_configuration import one_sentence
from infra.workers.kubernetes.configuration import KubernetesJobsVariables, default_template


@dataclass(frozen=True, slots=True)
class PoolFile:
    """A work pool: its type, and what its form is filled in with."""

    type: str
    job_variables: Mapping[str, Any]


def read_pool(path: Path) -> PoolFile:
    """Read a pool's file, and first the one that it is like: what it says itself counts.

    Raises:
        ValueError: the file has a mistake.
    """
    raw = yaml.safe_load(path.read_text())
    if unknown := {*raw} - {"like", "type", "job_variables"}:
        raise ValueError(
            f"{path.name} has {sorted(unknown)[0]!r}: the fields are like, type and job_variables."
        )
    like = read_pool(path.with_name(f"{raw['like']}.yaml")) if "like" in raw else None
    kind = raw.get("type") or (like and like.type)
    if not kind:
        raise ValueError(f"{path.name} has no type: set the type of the worker, or like to another file.")
    return PoolFile(kind, {**(like.job_variables if like else {}), **raw.get("job_variables", {})})


def base_job_template(pool: PoolFile, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The template that the pool is created with: the worker's own, filled in.

    Args:
        pool: what its file says.
        more: what only this cluster's owner knows, such as `image` and `node_pool`.

    Raises:
        ValueError: a job variable is none of the form's, or its value makes no sense.
    """
    template: dict[str, Any] = json.loads(json.dumps(default_template()))
    properties = template["variables"]["properties"]
    values = {**pool.job_variables, **(more or {})}
    for name, value in values.items():
        if name not in properties:
            raise ValueError(f"job_variables has {name!r}: choose one of {', '.join(sorted(properties))}.")
        properties[name]["default"] = value
    try:
        KubernetesJobsVariables.model_validate(values)
    except ValidationError as error:
        raise ValueError(one_sentence(error)) from None
    return template
