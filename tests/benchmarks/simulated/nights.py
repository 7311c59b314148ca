"""The nightly gate over simulated nights: `python -m tests.benchmarks.simulated.nights [--histories N] [MODEL…]`.

It prints the table of docs/nightly.md: false tickets in 100 nights of a series, and the share of histories whose
slowdown by 5 % is named within one night, three, seven. Two minutes for 200 histories.
"""

import argparse

import numpy as np

from tests.tasks.examples import night_noise
from tests.tasks.examples.simulated_nights import QUIET, WATCHED, Plan, filed, named_within, slowed

ALONE = ["gauss", "heavy", "ar1", "two_hosts", "unlike", "night_state", "drifting_box", "lottery"]
ALONE += ["busy", "slow_boxes", "neighbour", "weekends", "cycle"]
BESIDE = [
    "gauss",
    "night_state",
    "drifting_box",
    "two_hosts_controlled",
    "lottery",
    "slow_boxes",
    "neighbour",
]
WEEKS = 100  # histories whose weekly tickets are counted: they take most of the time
MANY = 300


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=[])
    parser.add_argument("--histories", type=int, default=200)
    given = parser.parse_args()
    print(
        "| noise | control | false: night + week | more than 100 series | named in 1, 3, 7 nights | more than 100 |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for model, control in [(name, False) for name in ALONE] + [(name, True) for name in BESIDE]:
        if model in (given.models or [model]):
            print(row(model, control, given.histories), flush=True)


def row(model: str, control: bool, histories: int) -> str:
    nights = made(model, control, histories)
    night, many = (slower(filed(nights, Plan(series))) / histories for series in (20, MANY))
    week = slower(filed(made(model, control, WEEKS), Plan(), weekly=True), "week") / WEEKS
    seen = [
        ", ".join(f"{100 * share:.0f} %" for share in named_within(nights, slowed(series)))
        for series in (20, MANY)
    ]
    return f"| {model} | {'yes' if control else 'no'} | {night:.2g} + {week:.2g} | {many:.2g} | {seen[0]} | {seen[1]} |"


def made(model: str, control: bool, histories: int) -> night_noise.Noise:
    shape = histories, QUIET + WATCHED
    nights: night_noise.Noise = getattr(night_noise, model)(np.random.default_rng(20261122), shape)
    return nights if control else nights.without_control()


def slower(tickets, kind="night") -> int:
    return sum(ticket.share > 0 and ticket.kind == kind for ticket in tickets)


if __name__ == "__main__":
    main()
