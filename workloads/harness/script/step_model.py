"""Infer a script's step from its optimizers and backward calls, or the reason why it is unknown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from workloads.harness.script.instances import DeclaredStep, Instances
from workloads.harness.script.turns import REPETITIONS, OptimizerTurns, iteration_ends

FEWER = 0.9  # backward calls for each step of an optimizer: fewer contradict it
FEWEST = 4  # steps of an optimizer that can contradict
NAMED = 4  # optimizers that are named one by one


@dataclass(frozen=True, slots=True)
class StepModel:
    """A step of a script.

    Attributes:
        step_of: the declaration that gives the same steps, as in `Script`; empty without a step.
        optimizer_steps: steps of each optimizer in a step, by its label, if there are several.
        backwards: mean of the backward calls in a step; None without any.
        refusal: why a step is unknown, with the option that states it; empty if it is known.
    """

    step_of: str = ""
    optimizer_steps: dict[str, float] = field(default_factory=dict)
    backwards: float | None = None
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class StepEvidence:
    """Evidence of a script's steps.

    Attributes:
        counted: `optimizer`, `backward`, `forward`, `loader` or `mark`; empty without a step.
        inside: optimizers that step within a backward call, by the first of them.
        logged_backwards: backward calls before each step in the order of `turns`.
        backwards_at: backward calls before the end of each step.
        has_ended: the script ended by itself, so an order can be too short to repeat.
    """

    counted: str
    declared: DeclaredStep | None
    optimizers: Instances
    turns: OptimizerTurns
    inside: Mapping[int, Sequence[int]]
    logged_backwards: Sequence[int]
    backwards_at: Sequence[int]
    has_ended: bool = False


def step_model(seen: StepEvidence) -> StepModel:
    seen.turns.look()
    ends = seen.backwards_at
    backwards = None
    if ends and ends[-1]:
        half = ends[len(ends) // 2 :] if len(ends) > 3 else ends  # the first steps can have more of them
        backwards = (half[-1] - half[0]) / (len(half) - 1) if len(half) > 1 else float(ends[0])
    refusal = _of_declaration(seen) if seen.declared else _of_order(seen) or _of_backwards(seen)
    return StepModel(_step_of(seen), _optimizer_steps(seen), backwards, refusal)


def _step_of(seen: StepEvidence) -> str:
    if seen.declared and seen.counted:
        return seen.declared.text
    if seen.counted != "optimizer" or not seen.turns.turns:
        return seen.counted
    return _label(seen, seen.turns.turns[-1].ends_with)


def _label(seen: StepEvidence, number: int) -> str:
    key = seen.turns.keys[number]
    return seen.optimizers.label(key) if isinstance(key, int) else "backward"


def _optimizer_steps(seen: StepEvidence) -> dict[str, float]:
    turns = seen.turns
    if seen.counted != "optimizer" or not turns.order:
        return {}
    if seen.declared:
        keys = [turns.keys[number] for number in turns.order]
        ends = [
            place
            for place, key in enumerate(keys)
            if isinstance(key, int) and seen.optimizers.is_declared(key, seen.declared)
        ]
    else:
        begins = turns.turns[-1].begins
        ends = [begins - 1, *(e for e in iteration_ends(turns.order, turns.turns) if e >= begins)]
    if len(ends) < 2:
        return {}
    half = (
        ends[len(ends) // 2 - 1 :] if len(ends) > 3 else ends
    )  # the first iterations can have another length
    steps = Counter[int]()
    for number in turns.order[half[0] + 1 : half[-1] + 1]:
        key = turns.keys[number]
        steps.update([key] if isinstance(key, int) else seen.inside[key[1]])
    if len(steps) == 1:
        return {}
    labels = Counter[str]()
    for number, count in steps.items():
        classes = seen.optimizers.classes
        labels[seen.optimizers.label(number) if len(steps) <= NAMED else classes[number]] += count
    return {label: count / (len(half) - 1) for label, count in labels.items()}


def _of_declaration(seen: StepEvidence) -> str:
    declared = seen.declared
    assert declared is not None
    classes = seen.optimizers.classes
    if declared.kind == "optimizer" and declared.nth is None and classes.count(declared.name) > 1:
        count = classes.count(declared.name)
        return f"{count} optimizers are of the class {declared.name}: name one, such as --step-of {declared.name}:1"
    if seen.counted:
        return ""
    labels = ", ".join(seen.optimizers.label(number) for number in range(min(len(classes), NAMED)))
    stepped = f"; the optimizers that stepped are {labels}" if labels else ""
    return f"--step-of is {declared.text}, and no such step was seen{stepped}"


def _of_order(seen: StepEvidence) -> str:
    turns = seen.turns
    if seen.counted != "optimizer" or not turns.turns:
        return ""
    counts = Counter(turns.order)
    is_short = seen.has_ended and min(counts.values()) < REPETITIONS
    if (turns.turns[-1].is_settled or is_short) and not turns.has_late:
        return ""
    if len(turns.keys) <= NAMED:
        times = ", ".join(f"{_label(seen, number)} {count} times" for number, count in counts.items())
    else:
        times = f"{turns.order and len(turns.order)} steps"
    rarest = _label(seen, min(counts, key=lambda number: counts[number]))
    return (
        f"{len(turns.keys)} optimizers step in no order that repeats itself ({times}): "
        f"state whose step ends a step, such as --step-of {rarest}"
    )


def _of_backwards(seen: StepEvidence) -> str:
    order = seen.turns.order
    if seen.counted != "optimizer" or not order:
        return ""
    number = Counter(order).most_common(1)[0][0]
    places = [place for place, other in enumerate(order) if other == number]
    steps, backwards = len(places) - 1, seen.logged_backwards[places[-1]] - seen.logged_backwards[places[0]]
    if steps < FEWEST or not 0 < backwards < FEWER * steps:
        return ""
    label = _label(seen, number)
    return (
        f"{label} stepped {steps} times in {backwards} backward calls, so a step can be either: "
        f"state it by --step-of {label} or --step-of backward"
    )
