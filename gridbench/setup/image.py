"""The images of a cloud's lanes."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gridbench.machines.image import build, push_image
from gridbench.setup.note import CloudNote
from infra.images import engine
from infra.images.context import revision
from infra.images.flavours import flavour
from tasks.errors import GridbenchError

Say = Callable[[str], None]
# github.com/distribution/reference, regexp.go: a host can have a port, a name is in small letters.
REFERENCE = re.compile(
    r"([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:\w[\w.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)
STORAGE_USD = 0.10  # a GB and month, in the registries of AWS and of Google


def published_images(options: Sequence[str]) -> dict[str, str]:
    images: dict[str, str] = {}
    for text in options:
        name, equals, reference = text.partition("=")
        if not equals or not REFERENCE.fullmatch(reference):
            raise GridbenchError(
                f"--image is {text!r}: write FLAVOUR=REFERENCE, such as cpu=HOST/NAME@sha256:… with 64 digits"
            )
        images[flavour(name).name] = reference
    return images


def flavours_for(gpus: Sequence[int]) -> tuple[str, ...]:
    pairs = (("cpu", any(not count for count in gpus)), ("cuda13", any(gpus)))
    return tuple(name for name, needed in pairs if needed)


def to_build(names: Sequence[str], published: Mapping[str, str], note: CloudNote) -> list[str]:
    commit = revision()
    stable = not commit.endswith("-dirty") and commit != "unknown"  # changed files make another image
    absent = [
        name for name in names if name not in published and not (stable and note.commits.get(name) == commit)
    ]
    if absent:
        engine.choose()
    return absent


def _path_of(name: str) -> Path | None:
    text = os.environ.get(f"GRIDBENCH_IMAGE_{name}")
    return Path(text) if text else None


def forget_elsewhere(note: CloudNote, repository: str) -> None:
    """Forget images in another or a deleted repository, to push them again."""
    for name in [*note.commits]:
        if not repository or not note.images.get(name, "").startswith(f"{repository}@"):
            del note.commits[name]


def ensure_pushed(
    names: Sequence[str], repository: str, published: Mapping[str, str], note: CloudNote, say: Say
) -> None:
    absent = to_build(names, published, note)
    if absent and revision().endswith("-dirty"):
        say("files differ from the commit: the image has them, and its records state that")
    for name in names:
        if name in published:
            note.images[name] = published[name]
            note.commits.pop(name, None)
        elif name in absent:
            say(
                f"building the image of flavour {name} from this checkout and pushing it, which takes minutes"
            )
            build(name, wheels=_path_of("WHEELS"), ca_bundle=_path_of("CA_BUNDLE"))
            note.images[name] = push_image(repository, name, allow_dirty=True)
            note.commits[name] = revision()
        note.write()
        say(f"image of flavour {name}: {note.images[name]}")
