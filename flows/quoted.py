"""Arguments of tasks that Prefect need not look into."""

from typing import TypeVar, cast

from prefect.utilities.annotations import quote

Value = TypeVar("Value")


def quoted(value: Value) -> Value:
    """Return a value so that a task gets it as it is.

    Prefect looks for the results of other tasks in whatever a task is given, twice: of records, at each
    sample, which takes 3 ms a record.
    """
    return cast(Value, quote(value))
