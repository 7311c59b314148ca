"""A script's optimizers and models by number, and the declared step."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

from workloads.harness.records.script import STEP_OF, STEPS_OF


@dataclass(frozen=True, slots=True)
class DeclaredStep:
    """The end of a step as its user declares it.

    Attributes:
        kind: `optimizer`, or one of `STEPS_OF`.
        name: class of the optimizer.
        nth: of its class, or loader, in the order of first use, from 1; None for the only one.
    """

    kind: str
    name: str = ""
    nth: int | None = None

    @property
    def text(self) -> str:
        return f"{self.name or self.kind}{f':{self.nth}' if self.nth else ''}"

    @classmethod
    def of(cls, step_of: str | None) -> DeclaredStep | None:
        """Read `AdamW`, `Adam:2` or `loader`."""
        match = STEP_OF.fullmatch(step_of or "")
        if match is None:
            return None
        name, nth = match[1], int(match[2]) if match[2] else None
        return cls(name, nth=nth) if name in STEPS_OF else cls("optimizer", name, nth)


class Instances:
    """A script's optimizers or models, numbered in the order of first use.

    An instance takes the number of an earlier one of its class that no longer exists.
    """

    def __init__(self) -> None:
        self.classes: list[str] = []
        self._numbers: dict[int, int] = {}  # by id
        self._alive: list[weakref.ref[Any]] = []  # by number

    def number(self, instance: Any) -> int:
        number = self._numbers.get(id(instance))
        if number is not None and self._alive[number]() is instance:
            return number
        name = type(instance).__name__
        for number, (other, alive) in enumerate(zip(self.classes, self._alive, strict=True)):
            if other == name and alive() is None:
                self._alive[number] = weakref.ref(instance)
                break
        else:
            number = len(self.classes)
            self.classes.append(name)
            self._alive.append(weakref.ref(instance))
        self._numbers[id(instance)] = number
        return number

    def label(self, number: int) -> str:
        """Such as `Adam`, or `Adam:2` if there are several."""
        name = self.classes[number]
        return f"{name}:{self._nth(number)}" if self.classes.count(name) > 1 else name

    def is_declared(self, number: int, declared: DeclaredStep) -> bool:
        return self.classes[number] == declared.name and declared.nth in (None, self._nth(number))

    def _nth(self, number: int) -> int:
        return self.classes[: number + 1].count(self.classes[number])
