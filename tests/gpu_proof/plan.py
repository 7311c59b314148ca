"""What a proof takes, in its order, and what of it is asked for."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.gpu_proof.bench import Bench
from tests.gpu_proof.stages import card, cases, clocks, failures, groups, later, precise
from tests.gpu_proof.steps import Step, taken
from tests.gpu_proof.table import FAIL, NOT_RUN, Row

STAGES = (precise, clocks, failures, groups, cases)


def asked(only: Sequence[str]) -> list[str]:
    """Return parts of steps' names: as given, or what did not hold in an earlier proof.json."""
    parts: list[str] = []
    for word in only:
        if word.endswith(".json"):
            rows = json.loads(Path(word).read_text())["rows"]
            parts += dict.fromkeys(row["step"] for row in rows if row["state"] in (FAIL, NOT_RUN))
        else:
            parts.append(word)
    return parts


def steps(bench: Bench, only: Sequence[str]) -> list[Step]:
    """Return the steps that are asked for: all but those of a later call, or those that a word is a part of."""
    made = [step for stage in STAGES for step in stage.steps(bench)]
    if not only:
        return made
    return [step for step in [*made, *later.steps(bench)] if any(word in step.name for word in only)]


def proof(bench: Bench, only: Sequence[str]) -> Iterator[Row]:
    """Look at the card, and then take every step."""
    yield from taken([card.STEP], bench)
    rest = steps(bench, only)
    if bench.card is None:
        yield from (Row(step.name, step.name, NOT_RUN, "the card was not seen") for step in rest)
    elif only and not rest:
        yield Row("plan", "plan", FAIL, f"no step has {' or '.join(only)} in its name")
    else:
        yield from taken(rest, bench)
