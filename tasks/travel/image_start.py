"""Start a lane job in a user's image."""

import hashlib
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tasks.planning.images import FIELD, own_images
from tasks.store.store import Store
from tasks.travel import image_boot
from tasks.travel.run_code import LANE, in_run, write_code

Bundle = tuple[bytes, str]  # a lane's code as one file, and its commit


def keep_lane(store: Store, bundle: Callable[[], Bundle]) -> None:
    """Put the lane's own code into the run's folder.

    Raises:
        GridbenchError: it can't be written.
    """
    if in_run(store, LANE) or not own_images(store.plan):
        return
    content, commit = bundle()
    digest = hashlib.sha256(content).hexdigest()
    write_code(store, f"{digest}.pack", content)
    write_code(store, LANE, f"sha256:{digest} {commit}".encode())


def in_image(variables: dict[str, Any], image: str, lane: str) -> dict[str, Any]:
    """Change job variables for a user's image.

    `lane`: id and commit of its code.
    """
    tree_id, commit = lane.split()
    words = ["python3", "-c", Path(image_boot.__file__).read_text(), tree_id.rpartition(":")[2], commit]
    return variables | {FIELD: image, "command": shlex.join(words)}
