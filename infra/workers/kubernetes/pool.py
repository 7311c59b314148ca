"""Base job templates from `deployments/pools/`."""

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
    """A work pool: its type, and the values of its form."""

    type: str
    job_variables: Mapping[str, Any]


def read_pool(path: Path) -> PoolFile:
    """Read a pool's file on top of the one that its field `like` names; ValueError for a mistake."""
    try:
        raw = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"{path.name} can't be read: {' '.join(str(error).split())}.") from None
    if not isinstance(raw, dict):
        raise ValueError(
            f"{path.name} holds {type(raw).__name__}: the fields are like, type and job_variables."
        )
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
    """Return the worker's template with the pool's values and the cluster's (`more`).

    `ValueError` for an unknown job variable or a wrong value.
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
