"""CSV files whose text a spreadsheet takes for text: what begins like a formula would be computed."""

from typing import Any

import pandas as pd

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what OWASP's page on CSV injection names


def harmless(cell: Any) -> Any:
    """Return a cell, of text with an apostrophe before what would begin a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell


def csv_of(frame: pd.DataFrame) -> bytes:
    """Return a table as the content of a CSV file, its titles included."""
    return frame.rename(columns=harmless).map(harmless).to_csv(index=False).encode()
