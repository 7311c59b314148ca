"""A simulated market: forty real offers, true times from published ones, some rented by the product's rule.

`python -m tests.benchmarks.market FOLDER` takes the folder of `tests.benchmarks.cards`. One card has measured
a workload; other cards' times are predicted from it, by constants fitted without that workload's times on the
predicted card.
"""

import math
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tasks.planning.hardware import DEPLOYMENTS
from tasks.prediction.card_ratio import excess
from tasks.pricing.offers import load_offers
from tasks.results.shortlist import (
    CHEAPEST,
    FASTEST,
    GOALS,
    MOST_RENTED,
    BestSoFar,
    Candidate,
    next_for_all,
)
from tests.benchmarks.cards import Table, fit, read_lambda

CARDS = {  # gpuhunt's names; with several forms, an offer is of either
    ("H100", 80): ("h100-sxm", "h100-pcie"),
    ("A100", 80): ("a100-80-sxm", "a100-80-pcie"),
    ("A100", 40): ("a100-40-pcie",),
    ("V100", 16): ("v100-sxm2",),
    ("A6000", 48): ("a6000",),
    ("RTX6000Ada", 48): ("rtx-6000-ada",),
    ("RTX4090", 24): ("rtx-4090",),
    ("RTX3090", 24): ("rtx-3090",),
    ("A10", 24): ("a10",),
}
OFFERS, RENTED, DRAWS = 40, 5, 400
MEASURING_H = 0.25  # a rented machine's start and its repeats
TIMES, GOAL, NEAR = 1.6 / 1.645, 0.9, 1.05
BOX_SD = 0.04  # of the log of a box's time, as of five sellers' H100


@dataclass(frozen=True)
class Offer:
    """An offer: its card's row in the table, its price, and the log of its true time."""

    card: int
    usd_per_hour: float
    log_time: float


@dataclass(frozen=True)
class Outcome:
    """By goal the distance of the answer from the best offer, and the cost of rented and of all offers."""

    over_best: Mapping[str, float]
    rented: int
    usd: float
    usd_all: float


def draw_offers(table: Table, workload: int, chance: random.Random) -> list[Offer]:
    """Return forty offers of real prices whose cards have measured the workload."""
    rows = [
        (cards, offer.usd_per_hour)
        for offer in load_offers(DEPLOYMENTS)
        if offer.gpus == 1 and (cards := CARDS.get((offer.gpu, round(offer.gpu_memory_gib or 0))))
    ]
    offers = []
    while len(offers) < OFFERS:
        cards, usd = chance.choice(rows)
        card = table.cards.index(chance.choice(cards))
        log_speed = table.logs[card, workload]
        if not np.isnan(log_speed):
            offers.append(Offer(card, usd, -log_speed + chance.gauss(0, BOX_SD)))
    return offers


def predicted(table: Table, workload: int, card: int, measured: Mapping[int, float]) -> tuple[float, float]:
    """Return log time on a card and its deviation: the precision-weighted mean over measured cards."""
    if card in measured:
        return measured[card], BOX_SD * math.sqrt(2)
    fitted = fit(table, tuple(c for c in range(len(table.cards)) if c != card))
    means, precisions, least = [], [], math.inf
    for source, log_time in measured.items():
        share = fitted.shares[workload]
        mean, sd = excess(fitted.weights[source, card, workload], [], fitted.spread)
        means.append(log_time - table.by_rates[share, source, card, workload] + mean)
        precisions.append(1 / sd**2)
        least = min(least, sd * TIMES)
    return float(np.average(means, weights=precisions)), least


def play(table: Table, workload: int, goals: Sequence[str], chance: random.Random) -> Outcome:
    """Rent by the product's rule until the answers stand or enough are rented."""
    offers = draw_offers(table, workload, chance)
    prices = {goal: [math.log(o.usd_per_hour) if goal == CHEAPEST else 0.0 for o in offers] for goal in goals}
    truth = {goal: [o.log_time + usd for o, usd in zip(offers, prices[goal], strict=True)] for goal in goals}
    first = min(range(OFFERS), key=lambda k: offers[k].usd_per_hour)
    rented = [first]
    while len(rented) < (MOST_RENTED if len(goals) > 1 else RENTED):
        cards: dict[int, list[float]] = {}
        for k in rented:
            cards.setdefault(offers[k].card, []).append(offers[k].log_time)
        measured = {card: float(np.mean(logs)) for card, logs in cards.items()}
        rows = {card: predicted(table, workload, card, measured) for card in {offer.card for offer in offers}}
        found = [
            BestSoFar(
                goal,
                "",
                min(truth[goal][k] for k in rented),
                {
                    str(k): Candidate(rows[o.card][0] + prices[goal][k], rows[o.card][1])
                    for k, o in enumerate(offers)
                    if k not in rented
                },
            )
            for goal in goals
        ]
        choice = next_for_all(found, [*map(str, range(OFFERS))])
        if choice is None:
            break
        rented.append(int(choice[1]))
    over_best = {goal: math.exp(min(truth[goal][k] for k in rented) - min(truth[goal])) for goal in goals}
    costs = [MEASURING_H * offer.usd_per_hour for offer in offers]
    return Outcome(over_best, len(rented), sum(costs[k] for k in rented), sum(costs))


def main(folder: Path) -> None:
    """Print how often a rented machine is within 5 % of the best, by time, by cost, and by both."""
    table = read_lambda(folder)
    for goals in ((FASTEST,), (CHEAPEST,), GOALS):
        chance = random.Random(1)
        ends = [play(table, chance.randrange(len(table.workloads)), goals, chance) for _ in range(DRAWS)]
        rented, usd, usd_all = (
            np.mean([getattr(end, n) for end in ends]) for n in ("rented", "usd", "usd_all")
        )
        for goal in goals:
            over = [end.over_best[goal] for end in ends]
            near = sum(each <= NEAR for each in over) / len(over)
            print(
                f"{goal} of {OFFERS}, looking for {' and '.join(goals)}: within 5 % of the best in {near:.1%} of {DRAWS} "
                f"draws (goal {GOAL:.0%}), at the 95th percentile {np.quantile(over, 0.95):.2f} times the best"
            )
        print(f"{rented:.1f} rented for {usd:.2f} USD, all of them {usd_all:.2f} USD")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
