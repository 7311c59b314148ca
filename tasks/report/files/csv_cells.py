"""CSV files without formulas, which spreadsheets would compute."""

from typing import Any

import pandas as pd

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # from OWASP's page on CSV injection


def harmless(cell: Any) -> Any:
    """Return a cell, with an apostrophe before text that begins like a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell


def csv_of(frame: pd.DataFrame) -> bytes:
    """Return the content of a CSV file."""
    return frame.rename(columns=harmless).map(harmless).to_csv(index=False).encode()
