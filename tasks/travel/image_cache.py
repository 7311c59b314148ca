"""`python -m tasks.travel.image_cache FOLDER ID [FILE]`: put packed code and its packages into an image."""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tasks.errors import GridbenchError
from tasks.travel.code_download import unpack_code
from tasks.travel.environment import environment_for
from tasks.travel.tree import hex_of


def fill_cache(folder: Path, tree_id: str, file: str | None, python: Path) -> None:
    """Put a tree, and its packages' environment, into GRIDBENCH_KEPT.

    Args:
        folder: with the packed tree, named by its digits.
        file: in the tree, names its packages.
        python: below the environment.

    Raises:
        GridbenchError: something can't be fetched.
    """

    def packed(tree_id: str) -> bytes:
        return (folder / f"{hex_of(tree_id)}.pack").read_bytes()

    with tempfile.TemporaryDirectory(prefix="gridbench-code-") as scratch:
        unpack_code(tree_id, Path(scratch) / "code", packed)
        if file:
            environment_for(Path(scratch) / "code", file, python, print)


def main(arguments: Sequence[str]) -> int:
    """Return 1 with a sentence on failure."""
    folder, tree_id, *file = arguments
    try:
        fill_cache(Path(folder), tree_id, file[0] if file else None, Path(sys.executable))
    except GridbenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
