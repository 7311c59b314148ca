"""Golden files: the whole text of a page, which changes only on purpose.

`WRITE_GOLDEN=1 pytest FILE` writes them; read the difference before you commit.
"""

import os
from pathlib import Path


def assert_golden(text: str, path: Path) -> None:
    """Compare a page with its golden file, without trailing blanks."""
    text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    if os.environ.get("WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
