"""Arguments of tasks that Prefect need not look into."""

from typing import TypeVar, cast

from prefect.utilities import annotations

Value = TypeVar("Value")


def opaque(value: Value) -> Value:
    """Return a value so that a task gets it as it is, and depends on the task that made it.

    Prefect looks for the results of other tasks in all that a task is given, twice: of records, at each
    sample, which takes 3 ms a record.
    """
    return cast(Value, annotations.opaque(value))
