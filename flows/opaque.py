"""Task arguments that Prefect must not search."""

from typing import TypeVar, cast

from prefect.utilities import annotations

Value = TypeVar("Value")


def opaque(value: Value) -> Value:
    """Return a value so that a task gets it unchanged, and depends on the task that made it.

    Prefect searches all arguments twice for results of other tasks: 3 ms a record, because of its samples.
    """
    return cast(Value, annotations.opaque(value))
