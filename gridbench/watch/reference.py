"""The command `reference`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from gridbench.terminal import say


def reference(
    folder: Annotated[Path, typer.Argument(help="Target folder; it must not exist yet")],
) -> None:
    """Freeze this environment as a reference.

    It takes seconds and next to no space, because files are linked. A hardware file with `reference: auto`,
    such as those of this machine, does not need this command: the first night does it.
    """
    from infra.images.reference import freeze

    frozen = freeze(folder, say)
    say(f"reference {frozen.id} is in {folder.absolute()}; this line in the machine's hardware file uses it:")
    say(f"reference: {json.dumps(frozen.command)}")
