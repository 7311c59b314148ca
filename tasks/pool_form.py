"""A pool's form, and the first job variable that it refuses."""

from collections.abc import Mapping
from typing import Any

from prefect.client.orchestration import PrefectClient
from prefect.exceptions import ObjectNotFound
from prefect.utilities.schema_tools.validation import validate

from tasks.planning.job_variables import REFERENCE
from workloads.harness.records.errors import hint

Form = dict[str, Any]


async def form_of(client: PrefectClient, pool: str) -> Form | None:
    """Return the JSON schema for `lane/POOL`; None if the server lacks it."""
    try:
        deployment = await client.read_deployment_by_name(f"lane/{pool}")
        work_pool = await client.read_work_pool(deployment.work_pool_name or pool)
    except ObjectNotFound:
        return None
    form: Form | None = work_pool.base_job_template.get("variables")
    return form


def mistake_in(variables: Mapping[str, Any], form: Form) -> str:
    """Name the first job variable that the form lacks or refuses; else empty."""
    names = [*form.get("properties", {})]
    for name in variables:
        if name not in names:
            return f"job_variables has {name!r}, which the form of its pool lacks; {hint(name, names)}"
    errors = validate(dict(variables), form, ignore_required=True, allow_none_with_default=True)
    return next((_sentence(_cause(error)) for error in errors if not _is_reference(error.instance)), "")


def _is_reference(value: object) -> bool:
    return isinstance(value, str) and bool(REFERENCE.search(value))


def _cause(error: Any) -> Any:
    """Return the failed rule of the alternative of the value's type."""
    while error.context:
        error = next((each for each in error.context if each.validator != "type"), error.context[0])
    return error


def _sentence(error: Any) -> str:
    """State the wrong value, and what would be right, without a value of `env`."""
    path = [*map(str, error.absolute_path)]
    field = ".".join(["job_variables", *path])
    if error.validator == "additionalProperties" and isinstance(error.schema, dict):
        names = [*error.schema.get("properties", {})]
        unknown = next((name for name in error.instance if name not in names), "")
        return f"{field} has the unknown key {unknown!r}; {hint(unknown, names)}"
    rule = f"{error.validator} {error.validator_value}" if error.validator != "pattern" else error.message
    value = "" if path[:1] == ["env"] else f" is {error.instance!r:.80}"
    return f"{field}{value}: the form of its pool has {rule}"
