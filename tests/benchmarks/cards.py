"""Predictions between cards against published times; each card in turn is held out.

`python -m tests.benchmarks.cards FOLDER` prints the table for a folder with the tables of
lambdal/deeplearning-benchmark (`lambda-train-throughput-*.csv`) and huggingface/pytorch-image-models
(`timm-infer-amp-*.csv`); `--write` also writes `deployments/prediction.yaml`, the constants of the product.
"""

import csv
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from pathlib import Path

import numpy as np
import yaml

from tasks.planning.hardware import DEPLOYMENTS, load_gpus
from tasks.prediction.card_ratio import LEVEL, Rates, SharedCase, Spread, excess, log_time_ratio, weight_after

CARDS = {
    "Quadro RTX 8000": "quadro-rtx-6000",  # the same chip with more memory
    "LambdaCloud V100 16GB": "v100-sxm2",
    "RTX 3090": "rtx-3090",
    "LambdaCloud A10": "a10",
    "LambdaCloud A100 40GB PCIe": "a100-40-pcie",
    "A100 80GB PCIe": "a100-80-pcie",
    "A100 80GB SXM4": "a100-80-sxm",
    "RTX 6000 Ada": "rtx-6000-ada",
    "RTX A6000": "a6000",
    "RTX 4090": "rtx-4090",
}
FIRST_WORKLOAD = 5  # columns before: name, number of cards, watts, price; `ssd` is the first workload
SHARES = np.linspace(0, 1, 21)
MOST_SHARED = 6
TRANSFORMERS = ("bert_base_squad", "bert_large_squad", "transformerxlbase", "transformerxllarge")
CONVOLUTIONAL = ("ssd", "resnet50")
FREEDOM = 4.0
SOURCE = (
    "lambdal/deeplearning-benchmark, pytorch/, ten trainings in fp16 and fp32 on single cards of twelve kinds"
)
HEAD = f"{'known of the held-out card':<44}{'median':>8}{'9th decile':>12}{'covered':>9}{'least covered card':>20}"


@dataclass(frozen=True, eq=False)
class Table:
    """Logs of speeds: a row per kind of card, a column per workload and precision, and each card's rates."""

    cards: list[str]
    workloads: list[tuple[str, str]]
    logs: np.ndarray
    rates: list[list[Rates]]
    rows: dict[str, list[dict[tuple[str, str], float]]]

    @cached_property
    def by_rates(self) -> np.ndarray:
        """Log speed ratios by data sheets: share, from, to, workload."""
        every = range(len(self.cards))
        return np.array(
            [
                [
                    [
                        [
                            -log_time_ratio(share, self.rates[a][w], self.rates[b][w])
                            for w in range(len(self.workloads))
                        ]
                        for b in every
                    ]
                    for a in every
                ]
                for share in SHARES
            ]
        )

    @cached_property
    def ratios(self) -> np.ndarray:
        """Published log speed ratios: from, to, workload."""
        return self.logs[None] - self.logs[:, None]


def card_of(name: str) -> str | None:
    """Return the card of a row with a single one; all H100 of one form are one kind."""
    if "H100" in name:
        return "h100-pcie" if "PCIe" in name else "h100-sxm"
    return CARDS.get(name)


def read_lambda(folder: Path) -> Table:
    """Read the trainings of single cards, without zeros, which mark missing measurements."""
    gpus = load_gpus()
    rows: dict[str, list[dict[tuple[str, str], float]]] = {}
    by_name: dict[tuple[str, str], dict[tuple[str, str], float]] = {}
    for precision in ("fp16", "fp32"):
        with (folder / f"lambda-train-throughput-{precision}.csv").open() as file:
            for row in csv.DictReader(file):
                if float(row["num_gpu"]) == 1 and (card := card_of(row["name_gpu"])):
                    logs = by_name.setdefault((card, row["name_gpu"]), {})
                    for name in [*row][FIRST_WORKLOAD - 1 :]:
                        if float(row[name]) > 0:
                            logs[name, precision] = float(np.log(float(row[name])))
    for (card, _), logs in by_name.items():
        rows.setdefault(card, []).append(logs)
    cards = [*rows]
    workloads = [*dict.fromkeys(w for logs in by_name.values() for w in logs)]
    means = [[_mean([row[w] for row in rows[card] if w in row]) for w in workloads] for card in cards]
    peaks = [gpus[card].tflops for card in cards]
    # torch's trainings in fp32 used tf32 then on cards that have it
    rates = [
        [
            Rates(t["fp16"] if p == "fp16" else t.get("tf32", t["fp32"]), gpus[c].gb_per_s)
            for _, p in workloads
        ]
        for c, t in zip(cards, peaks, strict=True)
    ]
    return Table(cards, workloads, np.array(means), rates, rows)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else np.nan


@dataclass(frozen=True, eq=False)
class Fitted:
    """Each workload's share and the spread of ratios, fitted to the cards `known`."""

    table: Table
    shares: list[int]
    excesses: np.ndarray
    weights: np.ndarray
    spread: Spread


@cache  # a pair of cards is left out by each of the two, and by every number of workloads
def fit(table: Table, known: tuple[int, ...]) -> Fitted:
    """Fit shares by least absolute error, variances by products of two workloads' residuals."""
    inside = np.ix_(known, known)
    shares = [
        int(
            np.argmin(
                [
                    np.nanmean(np.abs(table.ratios[..., w][inside] - by[..., w][inside]))
                    for by in table.by_rates
                ]
            )
        )
        for w in range(len(table.workloads))
    ]
    every = range(len(table.cards))
    picked = np.stack([table.by_rates[s, ..., w] for w, s in enumerate(shares)], axis=-1)
    weights = np.array(
        [
            [
                [weight_after(SHARES[s], table.rates[a][w], table.rates[b][w]) for w, s in enumerate(shares)]
                for b in every
            ]
            for a in every
        ]
    )
    excesses = picked - table.ratios  # of times, so that above 0 is slower
    return Fitted(table, shares, excesses, weights, _spread(table, shares, excesses, weights, known))


def _spread(
    table: Table, shares: list[int], excesses: np.ndarray, weights: np.ndarray, known: Sequence[int]
) -> Spread:
    products, squares = [], []
    for a, b in _pairs(known):
        e, x = excesses[a, b], weights[a, b]
        i, k = np.tril_indices(len(e), -1)
        mixed = np.c_[
            x[i] * x[k], x[i] * (1 - x[k]) + (1 - x[i]) * x[k], (1 - x[i]) * (1 - x[k]), e[i] * e[k]
        ]
        products.append(mixed[~np.isnan(mixed).any(axis=1)])
        squares.append(np.c_[x, 1 - x, e][~np.isnan(e)])
    rows = np.concatenate(products)
    compute, together, memory = np.linalg.lstsq(rows[:, :3], rows[:, 3], rcond=None)[0]
    values, vectors = np.linalg.eigh([[compute, together], [together, memory]])
    rates = vectors @ np.diag(np.maximum(values, 1e-4)) @ vectors.T
    own = np.concatenate(squares)
    workload = float(np.mean(own[:, 2] ** 2 - np.einsum("ni,ij,nj->n", own[:, :2], rates, own[:, :2])))
    box, software = _of_siblings(table)
    values = SHARES[shares]
    numbers = [rates[0, 0], rates[1, 1], rates[0, 1], max(workload, 1e-4)]
    return Spread(
        **dict(zip(("compute", "memory", "together", "workload"), map(float, numbers), strict=True)),
        freedom=FREEDOM,
        times=1.0,
        box=box,
        software=software,
        share=float(values.mean()),
        share_sd=float(values.std()),
        source=SOURCE,
    )


def _of_siblings(table: Table) -> tuple[float, float]:
    """Return variances of log ratios of two boxes and of two releases, by the H100 SXM; the first row is older."""
    first, *later = table.rows["h100-sxm"]
    boxes = [np.var([row[w] for row in later], ddof=1) for w in later[0]]
    releases = [(first[w] - np.mean([row[w] for row in later])) ** 2 for w in later[0] if w in first]
    return 2 * float(np.mean(boxes)), float(np.mean(releases))


def _pairs(known: Sequence[int]) -> Iterator[tuple[int, int]]:
    yield from ((a, b) for a in known for b in known if a != b)


def errors(fitted: Fitted, card: int, sources: Sequence[int], shared: Sequence[int]) -> np.ndarray:
    """Return log error and standard deviation of each prediction for a card, a row per source."""
    rows = []
    for source in sources:
        e, x = fitted.excesses[source, card], fitted.weights[source, card]
        seen = [SharedCase(x[w], e[w]) for w in shared if not np.isnan(e[w])]
        for w in range(len(e)):
            if w not in shared and not np.isnan(e[w]):
                mean, sd = excess(x[w], seen, fitted.spread)
                rows.append((e[w] - mean, sd))
    return np.array(rows)


def fingerprint(fitted: Fitted, known: Sequence[int], size: int) -> list[int]:
    """Return the workloads that best predict the others, by a greedy search."""
    chosen: list[int] = []
    pairs = np.array([*_pairs(known)])
    e, x = (values[pairs[:, 0], pairs[:, 1]] for values in (fitted.excesses, fitted.weights))
    whole = [w for w in range(e.shape[1]) if not np.isnan(e[:, w]).any()]
    s = fitted.spread
    rates = np.array([[s.compute, s.together], [s.together, s.memory]])
    x = np.stack([x, 1 - x], axis=-1)

    def error(cases: list[int]) -> float:
        others = [w for w in range(e.shape[1]) if w not in cases]
        among = np.einsum("pfi,ij,pgj->pfg", x[:, cases], rates, x[:, cases]) + s.workload * np.eye(
            len(cases)
        )
        gain = np.linalg.solve(among, np.einsum("pfi,ij,ptj->pft", x[:, cases], rates, x[:, others]))
        return float(np.nanmean(np.abs(e[:, others] - np.einsum("pft,pf->pt", gain, e[:, cases]))))

    for _ in range(size):
        chosen.append(min((w for w in whole if w not in chosen), key=lambda w: error([*chosen, w])))
    return chosen


def quantile(scores: Sequence[np.ndarray]) -> float:
    """Return the 90 % quantile of scores, each card weighted equally.

    Source: Dunn, Wasserman and Ramdas 2023, JASA 118, section 3.1: pooled distributions of groups.
    """
    values = np.concatenate(scores)
    weights = np.concatenate([np.full(len(s), 1 / len(s) / len(scores)) for s in scores])
    order = np.argsort(values)
    return float(values[order][np.searchsorted(np.cumsum(weights[order]), LEVEL)])


def held_out(
    table: Table, known: Sequence[int], size: int, chosen: Sequence[int] | None = None
) -> list[np.ndarray]:
    """Return errors and deviations of each known card, `size` of whose workloads are known, by the others."""
    found = []
    for card in known:
        others = [c for c in known if c != card]
        fitted = fit(table, tuple(others))
        shared = fingerprint(fitted, others, size) if chosen is None else chosen[:size]
        found.append(errors(fitted, card, others, shared))
    return found


def of_kinds(table: Table, precisions: tuple[str, str]) -> list[np.ndarray]:
    """Errors and deviations of each card with a transformer and a convolutional network known, each pair in turn."""
    every = range(len(table.cards))
    pairs = [
        [table.workloads.index((name, p)) for name, p in zip(names, precisions, strict=True)]
        for names in product(TRANSFORMERS, CONVOLUTIONAL)
    ]
    rows = [held_out(table, every, 2, pair) for pair in pairs]
    return [np.concatenate(of_card) for of_card in zip(*rows, strict=True)]


def line(title: str, rows: Sequence[np.ndarray], times: Sequence[float]) -> str:
    """Return a line of the table: the error, and the share of truths within intervals."""
    error = np.abs(np.expm1(np.concatenate([r[:, 0] for r in rows])))
    covered = [float(np.mean(np.abs(r[:, 0]) <= t * r[:, 1])) for r, t in zip(rows, times, strict=True)]
    middle, ninth = np.median(error), np.quantile(error, 0.9)
    return f"{title:<44}{middle:>8.1%}{ninth:>12.1%}{np.mean(covered):>9.1%}{min(covered):>20.1%}"


def nested_times(table: Table, size: int) -> list[float]:
    """Return each card's quantile by the other cards, each held out in turn."""
    every = range(len(table.cards))
    found = []
    for card in every:
        rows = held_out(table, [c for c in every if c != card], size)
        found.append(quantile([np.abs(r[:, 0]) / r[:, 1] for r in rows]))
    return found


def read_timm(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return log time ratios of a 4090 over a 3090, and each model's share of the 3090's peak."""
    tables = []
    for card in ("rtx3090", "rtx4090"):
        with (folder / f"timm-infer-amp-{card}.csv").open() as file:
            tables.append({(r["model"], r["infer_img_size"]): r for r in csv.DictReader(file)})
    both = [key for key in tables[0] if key in tables[1]]
    speed = np.array([[float(t[key]["infer_samples_per_sec"]) for key in both] for t in tables])
    flops = np.array([2e9 * float(tables[0][key]["infer_gmacs"]) for key in both])
    return np.log(speed[0] / speed[1]), flops * speed[0] / (load_gpus()["rtx-3090"].tflops["fp16"] * 1e12)


def timm_rows(folder: Path, spread: Spread, size: int) -> np.ndarray:
    """Return errors and deviations for a 4090 by a 3090's times and FLOPs; `size` models are known of both."""
    gpus = load_gpus()
    before, after = (Rates(gpus[c].tflops["fp16"], gpus[c].gb_per_s) for c in ("rtx-3090", "rtx-4090"))
    truth, reached = read_timm(folder)
    shares = np.minimum(reached, 1.0)
    weights = np.array([weight_after(s, before, after) for s in shares])
    e = truth - np.array([log_time_ratio(s, before, after) for s in shares])
    known = np.argsort(shares)[(np.linspace(0.1, 0.9, size) * len(shares)).astype(int)] if size else []
    seen = [SharedCase(weights[k], e[k]) for k in known]
    rows = []
    for k in range(len(e)):
        if k not in known:
            mean, sd = excess(weights[k], seen, spread)
            rows.append((e[k] - mean, sd))
    return np.array(rows)


def main(folder: Path, write: bool) -> None:
    table = read_lambda(folder)
    every = range(len(table.cards))
    fitted = fit(table, tuple(every))
    chosen = fingerprint(fitted, [*every], MOST_SHARED)
    print(f"{len(every)} kinds of cards, {len(table.workloads)} workloads; 90 % intervals\n{HEAD}")
    pooled = []
    for size in range(MOST_SHARED + 1):
        rows = held_out(table, every, size)
        pooled += [np.abs(r[:, 0]) / r[:, 1] for r in rows]
        print(
            line(
                f"data sheet, {size} workloads" if size else "data sheet alone",
                rows,
                nested_times(table, size),
            )
        )
    for precisions in product(("fp16", "fp32"), repeat=2):
        title = "transformer {}, convolutional network {}".format(*precisions)
        print(line(title, of_kinds(table, precisions), nested_times(table, 2)))
    print(
        "the workloads that tell most, in this order:",
        ", ".join("/".join(table.workloads[w]) for w in chosen),
    )
    spread = fitted.spread.model_copy(update={"times": quantile(pooled)})
    for size in (0, 5):
        rows = [timm_rows(folder, spread, size)]
        print(line(f"4090 by 3090, another source, {size} models", rows, [spread.times]))
    rounded = {k: round(v, 4) if isinstance(v, float) else v for k, v in spread.model_dump().items()}
    text = (
        "# Spread of the ratio of two cards' times over that by their data sheets, for `gridbench predict`. Written by\n"
        "# `python -m tests.benchmarks.cards FOLDER --write`; tasks/prediction/card_ratio.py has the meaning of each number.\n"
        + yaml.safe_dump(rounded, sort_keys=False, width=110)
    )
    if write:
        (DEPLOYMENTS / "prediction.yaml").write_text(text)
    print(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--write" in sys.argv[2:])
