"""Read the published files of MNIST, CIFAR-10 and Cora into numpy arrays."""

from __future__ import annotations

import gzip
import hashlib
import io
import pickle
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.harness.records.errors import WorkloadsError

Table = tuple[NDArray[np.uint8], NDArray[np.int64]]  # images [n, channels, side, side] and classes [n]
IMAGES_MAGIC, LABELS_MAGIC = 0x803, 0x801  # of the IDX format: unsigned bytes in three dimensions, in one
PIXELS = 3 * 32 * 32  # bytes of a CIFAR-10 image; its class is one byte before them in the binary version
BINARY, PICKLED = "cifar-10-batches-bin", "cifar-10-batches-py"
BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")


@dataclass(frozen=True, slots=True)
class Cora:
    """The citation graph as arrays; `words` and `links` as in `data.Graph`."""

    words: NDArray[np.int64]
    links: NDArray[np.int64]
    labels: NDArray[np.int64]
    dictionary: int
    classes: int
    source: str


def read_mnist(folder: Path) -> tuple[Table, Table, str]:
    """Return training set, test set and source: IDX files, plain or .gz."""
    names = [f"{part}-{kind}" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
    paths = [_found(folder, f"{name}-ubyte", ("", "MNIST/raw"), ("", ".gz")) for name in names]
    contents = [_content(path) for path in paths]
    images = [_idx(contents[i], paths[i], IMAGES_MAGIC, (28, 28)) for i in (0, 2)]
    labels = [_idx(contents[i], paths[i], LABELS_MAGIC, ()) for i in (1, 3)]
    train, test = (
        _table(pixels[:, None], kinds, path)
        for pixels, kinds, path in zip(images, labels, (paths[1], paths[3]), strict=True)
    )
    return train, test, _source(paths, contents)


def read_cifar10(folder: Path) -> tuple[Table, Table, str]:
    """Return training set, test set and source: the binary or the Python version."""
    binary = any((base / "data_batch_1.bin").is_file() for base in (folder, folder / BINARY))
    ending, places = (".bin", ("", BINARY)) if binary else ("", ("", PICKLED))
    paths = [_found(folder, f"{name}{ending}", places, ("",)) for name in BATCHES]
    contents = [_content(path) for path in paths]
    read = _binary_batch if binary else _pickled_batch
    *train, test = (read(content, path) for content, path in zip(contents, paths, strict=True))
    joined = (np.concatenate([images for images, _ in train]), np.concatenate([kinds for _, kinds in train]))
    return joined, test, _source(paths, contents)


def read_cora(folder: Path) -> Cora:
    paths = [_found(folder, name, ("", "cora"), ("",)) for name in ("cora.content", "cora.cites")]
    contents = [_content(path) for path in paths]
    rows = _rows(contents[0], paths[0])
    if not rows or len(rows[0]) < 3 or any(len(row) != len(rows[0]) for row in rows):
        raise _damaged(paths[0], "each line must hold a paper, a 0 or 1 for every word, and a class")
    if set().union(*(row[1:-1] for row in rows)) - {"0", "1"}:
        raise _damaged(paths[0], "each word of a paper must be 0 or 1")
    numbers = {row[0]: number for number, row in enumerate(rows)}
    topics = sorted({row[-1] for row in rows})
    cites = _rows(contents[1], paths[1])
    if not cites or any(len(row) != 2 or not set(row) <= numbers.keys() for row in cites):
        raise _damaged(paths[1], "each line must hold two papers of cora.content")
    pairs = np.sort(np.array([[numbers[citing], numbers[cited]] for citing, cited in cites]), axis=1)
    links = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0).T  # a few cite each other, or themselves
    words = np.array([[word == "1" for word in row[1:-1]] for row in rows])
    return Cora(
        words=np.stack(np.nonzero(words)).astype(np.int64),
        links=np.ascontiguousarray(links, dtype=np.int64),
        labels=np.array([topics.index(row[-1]) for row in rows], dtype=np.int64),
        dictionary=words.shape[1],
        classes=len(topics),
        source=_source(paths, contents),
    )


def _found(folder: Path, name: str, places: Sequence[str], endings: Sequence[str]) -> Path:
    for subfolder in places:
        for ending in endings:
            if (path := folder / subfolder / f"{name}{ending}").is_file():
                return path
    packed = " (plain or .gz)" if len(endings) > 1 else ""
    raise WorkloadsError(
        f"{name}{packed} is in neither the data folder {folder} nor its folder {places[-1]}; "
        "put the published files there, or leave --data out to use synthetic data"
    )


def _content(path: Path) -> bytes:
    try:
        raw = path.read_bytes()
        return gzip.decompress(raw) if path.suffix == ".gz" else raw
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged(path, f"it can't be read ({error})") from None


def _damaged(path: Path, reason: str) -> WorkloadsError:
    return WorkloadsError(f"the data file {path} is damaged: {reason}; put the published file in its place")


def _source(paths: Sequence[Path], contents: Sequence[bytes]) -> str:
    digest = hashlib.sha256(b"".join(hashlib.sha256(content).digest() for content in contents))
    return f"{', '.join(path.name for path in paths)} (sha256 {digest.hexdigest()[:12]})"


def _idx(content: bytes, path: Path, magic: int, item: tuple[int, ...]) -> NDArray[np.uint8]:
    head = 4 * (2 + len(item))
    if len(content) < head:
        raise _damaged(path, f"it holds {len(content)} bytes, fewer than its header of {head}")
    magic_found, count, *shape = (int(number) for number in np.frombuffer(content[:head], ">u4"))
    if magic_found != magic:
        raise _damaged(path, f"its magic number is {magic_found:#x}, not {magic:#x}")
    if tuple(shape) != item:
        raise _damaged(path, f"its images are {' x '.join(map(str, shape))} pixels, not 28 x 28")
    expected = head + count * int(np.prod(item, dtype=np.int64))
    if len(content) != expected:
        raise _damaged(path, f"it holds {len(content)} bytes, but its header states {expected}")
    return np.frombuffer(content, np.uint8, offset=head).reshape(count, *item)


def _table(images: NDArray[np.uint8], kinds: Any, path: Path) -> Table:
    labels = np.array(kinds, dtype=np.int64)
    if labels.shape != (len(images),) or not len(labels):
        raise _damaged(path, f"it has {labels.size} classes for {len(images)} images")
    if labels.min() < 0 or labels.max() > 9:
        raise _damaged(
            path, f"its classes must be from 0 to 9, but are from {labels.min()} to {labels.max()}"
        )
    return np.array(images), labels


def _binary_batch(content: bytes, path: Path) -> Table:
    if not content or len(content) % (1 + PIXELS):
        raise _damaged(path, f"it holds {len(content)} bytes, which is not a multiple of {1 + PIXELS}")
    rows = np.frombuffer(content, np.uint8).reshape(-1, 1 + PIXELS)
    return _table(rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0], path)


class _Arrays(pickle.Unpickler):
    """Reads numbers, strings, lists, dictionaries and numpy arrays; anything else could run code."""

    def find_class(self, module: str, name: str) -> Any:
        """Resolve numpy's past names for making an array, and refuse all others."""
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            return np.empty(0).__reduce__()[0]
        if module == "numpy" and name in ("ndarray", "dtype"):
            return getattr(np, name)
        raise pickle.UnpicklingError(f"it contains {module}.{name}, but only arrays are allowed")


def _pickled_batch(content: bytes, path: Path) -> Table:
    try:
        batch = _Arrays(io.BytesIO(content), encoding="bytes").load()
        pixels, kinds = batch[b"data"], batch[b"labels"]
    except Exception as error:  # a damaged pickle raises anything
        raise _damaged(path, f"it is not a batch ({type(error).__name__}: {error})") from None
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (PIXELS,):
        raise _damaged(path, f"its data must be bytes, {PIXELS} for each image")
    if not isinstance(kinds, list) or not all(type(kind) is int for kind in kinds):
        raise _damaged(path, "its labels must be a list of whole numbers")
    return _table(pixels.reshape(-1, 3, 32, 32), kinds, path)


def _rows(content: bytes, path: Path) -> list[list[str]]:
    try:
        return [line.split() for line in content.decode().splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise _damaged(path, "it is not text") from None
