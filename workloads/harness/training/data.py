"""Images and a citation graph, drawn from the seed or read from files.

Drawn data can be learnt, so that a failing training shows. It is made with whole numbers only, so that a seed
gives the same data on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workloads.harness.prepared import Env
from workloads.harness.records.errors import WorkloadsError

if TYPE_CHECKING:
    import torch

    from workloads.harness.training.data_files import Table

CLASSES = 10  # of both image sets
CELL = 4  # pixels of a side of a class pattern's squares
SHIFT = 2  # pixels that a pattern is moved by, at most
CHUNK = 4096  # images that are composed at once, so that composing takes little memory

# Cora as published: papers per class in the alphabet's order, words in its dictionary, links, words a paper.
CORA_CLASSES = (298, 418, 818, 426, 217, 180, 351)
CORA_WORDS, CORA_LINKS, WORDS_A_PAPER = 1433, 5429, 18
OWN_WORDS = 35  # percent of a paper's words that come from its class's part of the dictionary
OWN_LINKS = 78  # percent of links that stay in the class; by chance others do too, 82 in all as in Cora


@dataclass(frozen=True, slots=True)
class ImageKind:
    """A set of small images.

    Attributes:
        images, held_out: number of training and test images in the published set.
        mean, std: for the normalisation of its pixels, from 0 to 1.
        contrast: brightness of the class pattern in drawn images, of 255; the noise goes up to 190.
    """

    name: str
    channels: int
    side: int
    images: int
    held_out: int
    mean: float
    std: float
    contrast: int
    read: Callable[[Path], tuple[Table, Table, str]]


def _mnist(folder: Path) -> tuple[Table, Table, str]:
    from workloads.harness.training.data_files import read_mnist  # numpy comes with it

    return read_mnist(folder)


def _cifar10(folder: Path) -> tuple[Table, Table, str]:
    from workloads.harness.training.data_files import read_cifar10

    return read_cifar10(folder)


MNIST = ImageKind("MNIST", 1, 28, 60_000, 10_000, 0.1307, 0.3081, 48, _mnist)
CIFAR10 = ImageKind("CIFAR-10", 3, 32, 50_000, 10_000, 0.5, 0.5, 32, _cifar10)


@dataclass(frozen=True, slots=True)
class Images:
    """Images with their classes, on the host, as bytes, a quarter of float32.

    Attributes:
        images: uint8, [n, channels, side, side]; labels: int64, [n].
        held_images, held_labels: only for tests.
        source: `synthetic`, or the files' names and hash.
    """

    kind: ImageKind
    images: torch.Tensor
    labels: torch.Tensor
    held_images: torch.Tensor
    held_labels: torch.Tensor
    source: str


@dataclass(frozen=True, slots=True)
class Graph:
    """Papers, their words and the links between them, on the host.

    Attributes:
        words: int64, [2, n]: paper and word, sorted, each pair once.
        links: int64, [2, m]: two papers, the lower number first, sorted, each pair once, no loops.
        labels: int64, [papers].
        dictionary: number of words.
    """

    words: torch.Tensor
    links: torch.Tensor
    labels: torch.Tensor
    dictionary: int
    classes: int
    source: str


def normalised(kind: ImageKind, images: torch.Tensor) -> torch.Tensor:
    """Return bytes as float32 of about mean 0 and deviation 1."""
    return images.float().div_(255).sub_(kind.mean).div_(kind.std)


def load_images(env: Env, kind: ImageKind, count: int, held_out: bool = False) -> Images:
    import torch

    held = -(-count * kind.held_out // kind.images) if held_out else 0
    if env.data is None:
        patterns = _patterns(kind, env.generator)
        images, labels = _draw(patterns, env.generator, count)
        return Images(kind, images, labels, *_draw(patterns, env.generator, held), "synthetic")
    train, test, source = kind.read(env.data)
    if count > len(train[1]):
        raise WorkloadsError(
            f"{count} images were requested, but {kind.name} in {env.data} has {len(train[1])}; choose fewer"
        )
    first, then = (
        [torch.from_numpy(array[:n]) for array in table] for table, n in ((train, count), (test, held))
    )
    return Images(kind, first[0], first[1], then[0], then[1], source)


def _patterns(kind: ImageKind, generator: torch.Generator) -> torch.Tensor:
    """Return class patterns at every shift: uint8, [classes, shifts, channels, side, side]."""
    import torch

    cells = kind.side // CELL
    squares = torch.randint(2, (CLASSES, kind.channels, cells, cells), generator=generator).to(torch.uint8)
    whole = squares.repeat_interleave(CELL, 2).repeat_interleave(CELL, 3) * kind.contrast
    moves = range(-SHIFT, SHIFT + 1)
    return torch.stack([whole.roll((down, right), (2, 3)) for down in moves for right in moves], 1)


def _draw(
    patterns: torch.Tensor, generator: torch.Generator, count: int
) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    labels = torch.randint(CLASSES, (count,), generator=generator)
    shifts = torch.randint(patterns.shape[1], (count,), generator=generator)
    images = torch.empty(count, *patterns.shape[2:], dtype=torch.uint8)
    pixels = images.view(-1)
    words = torch.empty(-(-pixels.numel() // 8), dtype=torch.int64)
    pixels.copy_(words.random_(-(2**63), None, generator=generator).view(torch.uint8)[: pixels.numel()])
    for start in range(0, count, CHUNK):
        some = slice(start, start + CHUNK)
        quarter = images[some] >> 2
        images[some].bitwise_right_shift_(1).add_(quarter).add_(patterns[labels[some], shifts[some]])
    return images, labels


def load_graph(env: Env) -> Graph:
    import torch

    from workloads.harness.training.data_files import read_cora

    if env.data is None:
        return _draw_graph(env.generator)
    cora = read_cora(env.data)
    words, links, labels = (torch.from_numpy(table) for table in (cora.words, cora.links, cora.labels))
    return Graph(words, links, labels, cora.dictionary, cora.classes, cora.source)


def _draw_graph(generator: torch.Generator) -> Graph:
    import torch

    sizes = torch.tensor(CORA_CLASSES)
    papers = int(sizes.sum())
    labels = torch.arange(len(sizes)).repeat_interleave(sizes)
    labels = labels[torch.randperm(papers, generator=generator)]

    def whole(high: int, *shape: int) -> torch.Tensor:
        return torch.randint(high, shape, generator=generator)

    part = CORA_WORDS // len(sizes)
    anyone = whole(CORA_WORDS, papers, WORDS_A_PAPER)
    own = whole(part, papers, WORDS_A_PAPER) + part * labels[:, None]
    chosen = torch.where(whole(100, papers, WORDS_A_PAPER) < OWN_WORDS, own, anyone)
    codes = (chosen + CORA_WORDS * torch.arange(papers)[:, None]).unique()  # type: ignore[no-untyped-call]
    words = torch.stack([codes // CORA_WORDS, codes % CORA_WORDS])
    return Graph(words, _links(labels, sizes, whole), labels, CORA_WORDS, len(sizes), "synthetic")


def _links(labels: torch.Tensor, sizes: torch.Tensor, whole: Callable[..., torch.Tensor]) -> torch.Tensor:
    import torch

    papers, drawn = len(labels), 4 * CORA_LINKS  # more than needed: some come twice
    citing = torch.cat([torch.arange(papers), whole(papers, drawn - papers)])
    position = whole(papers, drawn)
    skewed = (
        position * position // papers * position // papers
    )  # cubed: early papers of a class are cited most
    first = sizes.cumsum(0) - sizes
    kind = labels[citing]
    inside = labels.argsort(stable=True)[first[kind] + skewed % sizes[kind]]
    cited = torch.where(whole(100, drawn) < OWN_LINKS, inside, whole(papers, drawn))
    cited = torch.where(cited == citing, (cited + 1) % papers, cited)
    pairs = torch.stack([torch.minimum(citing, cited), torch.maximum(citing, cited)])
    numbers = pairs[0] * papers + pairs[1]
    codes, place_of = numbers.unique(return_inverse=True)  # type: ignore[no-untyped-call]
    earliest = torch.full_like(codes, drawn).scatter_reduce(0, place_of, torch.arange(len(place_of)), "amin")
    kept = codes[earliest.argsort()[:CORA_LINKS]].sort().values
    return torch.stack([kept // papers, kept % papers])
