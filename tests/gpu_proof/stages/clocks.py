"""Our clocks against others, on the same operations in the same process, in turns."""

from collections.abc import Iterator

from tests.gpu_proof.bench import Bench
from tests.gpu_proof.steps import Step
from tests.gpu_proof.table import SHOWN, Row, holds, within

NAME = "clocks"
SHORT_S = 1e-4  # from here on the two loops around an operation differ by less than 5 % of it
LONG_S = 2e-4
WAITS = 0.1  # of its event time; above it a step is launch-bound


def look(bench: Bench) -> Iterator[Row]:
    found = bench.child("clocks", bench.device, limit_s=150)
    bench.clocks.update(found["seconds"])
    for name, why in found["missing"].items():
        yield Row(NAME, f"{name}: missing", SHOWN, why)
    for name, by_clock in bench.clocks.items():
        figures = " ".join(f"{clock} {seconds * 1e6:.2f}us" for clock, seconds in by_clock.items())
        if bench.on_gpu:
            yield from _rows(name, by_clock, found["wall_over_timer"][name], figures)
        else:
            yield Row(NAME, f"{name}: clocks", SHOWN, figures)
    if "sleep" in bench.clocks:
        ratio = bench.clocks["sleep2"]["device"] / bench.clocks["sleep"]["device"]
        yield within(NAME, "twice the sleep takes twice as long", ratio, 1.97, 2.03)


def _rows(name: str, by_clock: dict[str, float], wall_over_timer: float, figures: str) -> Iterator[Row]:
    most = 1.05 if by_clock["wall"] > SHORT_S else 1.15
    yield within(NAME, f"{name}: wall over torch's Timer", wall_over_timer, 0.95, most, figures)
    waits = 1 - by_clock["graph"] / by_clock["device"] if "graph" in by_clock else 0.0
    # do_bench keeps the card's queue full: of a step that waits for its host it says less than the events
    if "do_bench" in by_clock and by_clock["wall"] > LONG_S and waits < WAITS:
        ratio = by_clock["device"] / by_clock["do_bench"]
        yield within(NAME, f"{name}: device over do_bench", ratio, 0.95, 1.06)
    if "graph" in by_clock and not name.startswith(
        "copy"
    ):  # a graph copies by a copy engine, which is slower
        told = f"{waits:.0%} of its event time the card waits for the host"
        yield holds(
            NAME, f"{name}: event time over a graph's", by_clock["device"] >= 0.9 * by_clock["graph"], told
        )


def steps(bench: Bench) -> list[Step]:
    return [Step(NAME, 60 if bench.on_gpu else 15, look)]
