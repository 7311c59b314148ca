"""CSV without formulas, which spreadsheets would compute."""

from typing import Any

import pandas as pd

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # from OWASP's page on CSV injection


def harmless(cell: Any) -> Any:
    """Put an apostrophe before text that begins like a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell


def csv_of(frame: pd.DataFrame) -> bytes:
    return frame.rename(columns=harmless).map(harmless).to_csv(index=False).encode()
