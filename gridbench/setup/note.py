"""The note of a prepared cloud, for `run` and `down`."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from gridbench.run.session import STATE
from tasks.errors import GridbenchError


class CloudNote(BaseModel):
    """The objects that `gridbench up` has made for a cloud, and its worker's settings; it holds no secret.

    Attributes:
        project: the stack or cluster.
        place: as text; the same commands find nothing in another place.
        kind: type of the work pool.
        environment: variables of the worker in addition to those of the API.
        images: references by flavour.
        commits: of the images built here, by flavour.
        work_pools, deployments, variables: those that `up` made; `down` keeps earlier ones.
    """

    model_config = ConfigDict(extra="forbid")

    cloud: str
    project: str
    api_url: str
    pool: str
    kind: str
    place: str = ""
    environment: dict[str, str] = {}
    images: dict[str, str] = {}
    commits: dict[str, str] = {}
    work_pools: list[str] = []
    deployments: list[str] = []
    variables: list[str] = []

    @property
    def folder(self) -> Path:
        return folder_of(self.cloud)

    def write(self) -> Self:
        path = path_of(self.cloud)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".part", delete=False) as draft:
                draft.write(self.model_dump_json(indent=2) + "\n")
            os.replace(draft.name, path)
        except OSError as error:
            raise GridbenchError(f"the note {path} can't be written ({error.strerror})") from None
        return self

    def remove(self) -> None:
        path_of(self.cloud).unlink(missing_ok=True)


def folder_of(cloud: str) -> Path:
    return STATE.absolute() / "clouds" / cloud


def path_of(cloud: str) -> Path:
    return folder_of(cloud) / "note.json"


def read_note(cloud: str) -> CloudNote | None:
    path = path_of(cloud)
    try:
        return CloudNote.model_validate_json(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        words = " ".join(str(error).split())[:200]
        raise GridbenchError(
            f"the note {path} can't be read ({words}); delete it, then `gridbench up {cloud}` writes it anew"
        ) from None


def read_notes() -> Iterator[CloudNote]:
    for path in sorted((STATE.absolute() / "clouds").glob("*/note.json")):
        if note := read_note(path.parent.name):
            yield note
