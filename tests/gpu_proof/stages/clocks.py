"""Our clocks against those of others, on the same operations in the same process, in turns."""

from collections.abc import Iterator

from tests.gpu_proof.bench import Bench
from tests.gpu_proof.steps import Step
from tests.gpu_proof.table import SHOWN, Row, holds, within

NAME = "clocks"
SHORT_S = 1e-4  # from here on the two loops around an operation differ by less than 5 % of it
LONG_S = 2e-4


def look(bench: Bench) -> Iterator[Row]:
    found = bench.child("clocks", bench.device, limit_s=150)
    bench.clocks.update(found["seconds"])
    for name, why in found["missing"].items():
        yield Row(NAME, f"{name}: missing", SHOWN, why)
    for name, by_clock in bench.clocks.items():
        figures = " ".join(f"{clock} {seconds * 1e6:.2f}us" for clock, seconds in by_clock.items())
        if bench.on_gpu:
            yield from _rows(name, by_clock, figures)
        else:
            yield Row(NAME, f"{name}: clocks", SHOWN, figures)
    if "sleep" in bench.clocks:
        ratio = bench.clocks["sleep2"]["device"] / bench.clocks["sleep"]["device"]
        yield within(NAME, "twice the sleep takes twice as long", ratio, 1.97, 2.03)


def _rows(name: str, by_clock: dict[str, float], figures: str) -> Iterator[Row]:
    most = 1.05 if by_clock["wall"] > SHORT_S else 1.15
    yield within(
        NAME, f"{name}: wall over torch's Timer", by_clock["wall"] / by_clock["timer"], 0.95, most, figures
    )
    if "do_bench" in by_clock and by_clock["wall"] > LONG_S:
        ratio = by_clock["device"] / by_clock["do_bench"]
        yield within(NAME, f"{name}: device over do_bench", ratio, 0.95, 1.06)
    if "graph" in by_clock:
        waits = 1 - by_clock["graph"] / by_clock["device"]
        told = f"{waits:.0%} of its event time the card waits for the host"
        yield holds(
            NAME, f"{name}: event time over a graph's", by_clock["device"] >= 0.9 * by_clock["graph"], told
        )


def steps(bench: Bench) -> list[Step]:
    return [Step(NAME, 60 if bench.on_gpu else 15, look)]
