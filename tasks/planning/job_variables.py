"""Job variables of hardware files, without secrets."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tasks.travel.secrets import holds_secret
from workloads.harness.records.secret_names import is_secret_variable

# Prefect's API stores a larger number, and then answers 500 to each list with its flow run.
MOST_WHOLE = 2**63 - 1
REFERENCE = re.compile(r"\{\{.*\}\}", re.DOTALL)  # to a block or variable, which the worker looks up


def fault_in(variables: Mapping[str, Any]) -> str:
    """Name the first forbidden job variable; else empty."""
    for name, value in _env_of(variables):
        if is_secret_variable(name) and isinstance(value, str) and value and not REFERENCE.search(value):
            return _secret(f"job_variables.env.{name}")
    for path, value in _values(variables, "job_variables"):
        if isinstance(value, str) and holds_secret(value.encode(errors="replace")):
            return _secret(path)
        if isinstance(value, int) and abs(value) > MOST_WHOLE:
            return f"{path} has {len(str(abs(value)))} digits; at most {MOST_WHOLE} can be stored"
        if isinstance(value, float) and not math.isfinite(value):
            return f"{path} is {value}, which is not a finite number"
    return ""


def _secret(path: str) -> str:
    return (
        f"{path} holds a secret, which the plan and Prefect's database would keep in plain text: store it in a "
        "Secret block and write {{ prefect.blocks.secret.NAME }}, or in a secret of the cluster or cloud"
    )


def _env_of(variables: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    env = variables.get("env")
    yield from ((str(name), value) for name, value in (env.items() if isinstance(env, dict) else ()))


def _values(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _values(inner, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from _values(inner, f"{path}.{index}")
    else:
        yield path, value
