"""Which card it is; without one the proof ends."""

from collections.abc import Iterator

from tests.gpu_proof.bench import Bench, Card
from tests.gpu_proof.cards import peaks_of
from tests.gpu_proof.steps import Step
from tests.gpu_proof.table import SHOWN, Row, holds

NAME = "card"


def look(bench: Bench) -> Iterator[Row]:
    facts = bench.child("card", bench.device, limit_s=240)  # a cold disk: torch is gigabytes
    bench.facts = facts
    bench.card = Card(facts["name"], facts["count"], tuple(facts["capability"]), facts["memory_bytes"])
    yield holds(NAME, NAME, True, ", ".join(f"{name} {value}" for name, value in facts.items()))
    if bench.on_gpu and peaks_of(bench.card.name) is None:
        yield Row(
            NAME, "peaks", SHOWN, f"none are known of {bench.card.name}: rates are shown and not judged"
        )


STEP = Step(NAME, 5, look)
