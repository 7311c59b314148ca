"""Golden files: the whole text of a page, which changes only on purpose.

`WRITE_GOLDEN=1 pytest FILE` writes them anew; read the difference before you commit it.
"""

import os
from pathlib import Path


def assert_golden(text: str, path: Path) -> None:
    """Assert that a page has the text that its golden file has; blanks at the ends of lines do not count."""
    text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    if os.environ.get("WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
