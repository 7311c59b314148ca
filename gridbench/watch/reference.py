"""gridbench reference: the frozen environment that measures the controls of nights."""

import json
from pathlib import Path
from typing import Annotated

import typer

from gridbench.terminal import say


def reference(
    folder: Annotated[Path, typer.Argument(help="Where to; it must not be there yet")],
) -> None:
    """Freeze what measures here into FOLDER, for controls beside the repeats of a night.

    pip installs the very versions that are here, from wherever it is told to: PIP_EXTRA_INDEX_URL may name
    the index of a torch build.
    """
    from infra.images.reference import freeze

    frozen = freeze(folder, say)
    say(f"reference {frozen.id} is in {folder.absolute()}; this line in the machine's hardware file uses it:")
    say(f"reference: {json.dumps(frozen.command)}")
