"""Sizes in names, such as `Image 4096x4096 (batch 2)`, and their work.

`ResNet-50`, `fp16` and `Test 3` have no size.
"""

import math
import re

from tasks.published.table import Sizes, TableRow


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


EDGE = "edge"  # of `5000x5000`: edge 1, edge 2 and, of three, edge 3
_NUMBER = r"\d{1,3}(?:,\d{3})+|\d{1,15}"
_EDGES = rf"(?<![\w.])(?P<edges>(?:{_NUMBER})(?:\s?[x×]\s?(?:{_NUMBER})){{1,2}})(?!\w)"
_WORDS = "batch[ _-]?size|batch|bs|pixels|width|height|length|seq[ _-]?len|hidden|samples|images|tokens"
_NAMED = rf"\b(?P<word>{_WORDS})\s?[=:]?\s?(?P<number>{_NUMBER})(?!\w)"
_LETTER = rf"\b(?P<letter>[a-z_]+)\s?=\s?(?P<value>{_NUMBER})(?!\w)"
_COUNTED = rf"(?<![\w.])(?P<count>{_NUMBER})\s?(?P<unit>px|pixels|images|samples|tokens|elements)\b"
_SIZE = re.compile("|".join((_EDGES, _NAMED, _LETTER, _COUNTED)), re.IGNORECASE)
_SAME = {"bs": "batch", "px": "pixels"}
# With more of these the time falls.
HANDS = {"threads", "workers", "processes", "gpus", "devices", "ranks", "cores"}
LENGTHS = word_set(
    "isl osl prompt_tokens input_tokens output_tokens generated_tokens input_len output_len out_len prompt_len "
    "prompt_length input_length output_length generation_length seqlen"
)
ORDINALS = {"epoch", "epochs", "step", "run", "repeat", "iteration", "seed", "id", "v", "version"}
_PRODUCTS = {"matmul", "gemm", "sgemm", "hgemm", "dgemm", "mm"}
_BESIDE = word_set("square product multiplication multiply mult mul n batch size bs gpu")
PRECISIONS = ("fp32", "tf32", "fp16", "bf16")


def read_sizes(name: str) -> tuple[str, Sizes]:
    """Return a name without sizes, in small letters, and its sizes."""
    sizes: dict[str, float] = {}

    def keep(match: re.Match[str]) -> str:
        if match["edges"]:
            edges = re.split(r"\s?[x×]\s?", match["edges"], flags=re.IGNORECASE)
            sizes.update({f"{EDGE} {i}": _number(edge) for i, edge in enumerate(edges, start=1)})
            return "#"
        word = size_name(match["word"] or match["letter"] or match["unit"])
        if word in HANDS | ORDINALS:
            return match[0]
        sizes[word] = _number(match["number"] or match["value"] or match["count"])
        return f"{word} #"

    kind = _SIZE.sub(keep, name)
    return " ".join(kind.lower().split()), tuple(sizes.items())


def size_name(word: str) -> str:
    """Return `batch` for `Batch Size` and `bs`."""
    plain = re.sub(r"[ _-]+", "_", word.strip().lower())
    return _SAME.get(plain.removesuffix("_size"), plain.removesuffix("_size"))


def more_work(larger: TableRow, smaller: TableRow) -> bool:
    """Return whether every size is as large, and one twice."""
    large, small = dict(larger.sizes), dict(smaller.sizes)
    if larger.kind != smaller.kind or not large or large.keys() != small.keys():
        return False
    return all(large[n] >= small[n] for n in large) and any(large[n] >= 2 * small[n] for n in large)


def flops(row: TableRow) -> float | None:
    """Return the column's, or 2 n m k for matrices."""
    sizes = dict(row.sizes)
    if "flops" in sizes:
        return sizes["flops"]
    words = set(re.findall(r"[a-z]+\d*", row.kind))
    plain = words - {"matrix", "matrices"} - _BESIDE - set(PRECISIONS)
    if not (words & _PRODUCTS or ({"matrix", "matrices"} & words and not plain)):
        return None
    edges = [size for name, size in row.sizes if name.startswith(EDGE)]
    named = [sizes[name] for name in ("n", "m", "k") if name in sizes]
    edges = edges or (named if len(named) == 3 else [size for name, size in row.sizes if name == "n"])
    if not edges or (len(edges) == 2 and edges[0] != edges[1]):
        return None
    return 2 * sizes.get("batch", 1.0) * (math.prod(edges) if len(edges) == 3 else edges[0] ** 3)


def precision(row: TableRow) -> str | None:
    return next((name for name in PRECISIONS if name in row.kind.split()), None)


def _number(text: str) -> float:
    return float(text.replace(",", ""))
