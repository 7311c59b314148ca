"""The steps of a proof in order, and their selection."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.gpu_proof.bench import Bench
from tests.gpu_proof.leave import Earlier
from tests.gpu_proof.stages import card, cases, clocks, cost, failures, groups, health, later, precise
from tests.gpu_proof.steps import Step, taken
from tests.gpu_proof.table import FAIL, NOT_RUN, Row

NOTHING = Earlier()
STAGES = (precise, clocks, failures, health, groups, cases, cost)


def asked(only: Sequence[str]) -> list[str]:
    """Return parts of steps' names: as given, or the failed ones of an earlier proof.json."""
    parts: list[str] = []
    for word in only:
        if word.endswith(".json"):
            rows = json.loads(Path(word).read_text())["rows"]
            parts += dict.fromkeys(row["step"] for row in rows if row["state"] in (FAIL, NOT_RUN))
        else:
            parts.append(word)
    return parts


def steps(bench: Bench, only: Sequence[str]) -> list[Step]:
    """Return the selected steps, essential ones first.

    All but those of a later call; or those that contain a word, unless it is a step's whole name.
    """
    made = [step for stage in STAGES for step in stage.steps(bench)]
    if only:
        made += later.steps(bench)
        names = {step.name for step in made}
        parts = [word for word in only if word not in names]
        made = [s for s in made if s.name in only or any(part in s.name for part in parts)]
    return sorted(made, key=lambda step: not step.essential)


def proof(bench: Bench, only: Sequence[str], before: Earlier = NOTHING) -> Iterator[Row]:
    """Look at the card, and then take every step that an earlier call has not taken."""
    yield from taken([card.STEP], bench)
    if before.card and bench.card and bench.card.name != before.card:
        why = f"this is {bench.card.name}, the proof that goes on is of {before.card}: begin anew"
        yield Row("plan", "plan", FAIL, why)
        return
    wanted = steps(bench, only)
    rest = [step for step in wanted if step.name not in before.done]
    if bench.card is None:
        why = "the card was not seen"
        yield from (Row(step.name, step.name, NOT_RUN, why, step.essential) for step in rest)
    elif only and not wanted:
        yield Row("plan", "plan", FAIL, f"no step has {' or '.join(only)} in its name")
    else:
        yield from taken(rest, bench)
