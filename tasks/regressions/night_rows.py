"""The records of one run as rows: from its table where that is whole, else from the records themselves."""

from functools import cache
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.errors import GridbenchError, one_line
from tasks.planning.plan import Plan
from tasks.plausibility.physics import gate
from tasks.results.repeats import latest
from tasks.store.frames import results_table
from tasks.store.store import Store

TEXTS = ("machine_id", "environment_id", "commit", "reference", "hostname")
SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("run", "hardware", "case", "verdict", "control_verdict", *TEXTS)]
    + [(name, pa.float64()) for name in ("repeat", "compute_s", "control_s")]
)
CELL = ["hardware", "case"]
NEEDED = {"run", *CELL, "repeat", "verdict", "compute_s"}  # the others are missing from older tables


def read_rows(folder: Path, plan: Plan) -> tuple[pd.DataFrame, list[str]]:
    """One row a record with the columns of `SCHEMA`, and a sentence for each thing that is odd."""
    name = plan.run
    try:
        rows, odd = _parquet(folder / "results.parquet"), []
    except FileNotFoundError:
        rows, odd = _from_records(
            folder, plan, f"run {name} was cut short or is under way, it has no results.parquet"
        )
    except Exception as error:  # a damaged file makes pyarrow raise nearly anything
        why = f"results.parquet of run {name} can't be read ({one_line(error, 120)})"
        rows, odd = _from_records(folder, plan, why)
    own = rows["run"].isin([name, folder.name]) & rows["hardware"].notna() & rows["case"].notna()
    if own.all():
        return rows, odd
    told = f"left out: {int((~own).sum())} records in run {name} are of another run, or of no cell"
    return rows[own], [*odd, told]


@cache
def no_rows() -> pd.DataFrame:
    """The same columns, without a row."""
    return _frame(pd.DataFrame())


def _parquet(path: Path) -> pd.DataFrame:
    """The needed columns of a table; those that an older version did not write are missing.

    Raises:
        Exception: whatever is wrong with the file.
    """
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        names = {*file.schema_arrow.names}
        there = [name for name in SCHEMA.names if name in names]
        table = file.read(columns=there)
    if absent := NEEDED - {*there}:
        raise ValueError(f"it has no column {min(absent)}")
    table.validate(full=True)  # else damaged offsets of texts would lead out of the file's memory
    given = [
        table[field.name].cast(field.type) if field.name in there else pa.nulls(len(table), field.type)
        for field in SCHEMA
    ]
    return pa.table(given, schema=SCHEMA).to_pandas(ignore_metadata=True)


def _from_records(folder: Path, plan: Plan, why: str) -> tuple[pd.DataFrame, list[str]]:
    """The same from the records, judged as a report would judge them."""
    try:
        records, odd = Store(folder).records()
    except GridbenchError as error:
        return no_rows(), [f"{why}, and its records can't be read: {error}"]
    if not records:
        return no_rows(), [f"{why}, and it has no record", *odd]
    refusals = gate(latest(records), plan.machines)
    return _frame(results_table(records, refusals)), [f"{why}: its {len(records)} records count", *odd]


def _frame(table: pd.DataFrame) -> pd.DataFrame:
    """The columns of `SCHEMA` in their types."""
    kinds = {field.name: float if pa.types.is_floating(field.type) else "str" for field in SCHEMA}
    return table.reindex(columns=SCHEMA.names).astype(kinds)
