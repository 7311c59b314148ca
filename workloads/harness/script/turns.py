"""The order in which optimizers step (their numbers), and the one whose step ends an iteration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

MOST_LOGGED = 10_000  # steps of optimizers whose order is looked at
NEW_PHASE = 8  # steps of new optimizers alone that begin another phase of a training
REPETITIONS = 3  # iterations that show an order
Key = int | tuple[str, int]  # an optimizer's number, or `backward` and the first of those that step within it
LOOK_GROWTH = 1.1  # of the order between two looks at it: a look takes as long as the order


@dataclass(frozen=True, slots=True)
class Turn:
    """The iterations of one phase of a training.

    Attributes:
        ends_with: number of the optimizer whose step ends an iteration.
        every: its steps in an iteration.
        begins: place in the order at which the phase begins.
        is_settled: the order was seen to repeat itself.
    """

    ends_with: int
    every: int = 1
    begins: int = 0
    is_settled: bool = True


def turns_of(order: Sequence[int]) -> list[Turn]:
    """Return the iterations of each phase of an order that is not empty, the present phase last."""
    cuts = [0, *phase_begins(order), len(order)]
    return [turn_of(order[begin:end], begin) for begin, end in pairwise(cuts)]


def phase_begins(order: Sequence[int]) -> list[int]:
    """Return the places at which all earlier optimizers have stepped for the last time.

    A phase has at least `NEW_PHASE` steps, because an optimizer that has not stepped for fewer can come back.
    """
    last = {optimizer: place for place, optimizer in enumerate(order)}
    begins, furthest = list[int](), -1
    for place in range(len(order) - NEW_PHASE + 1):
        if 0 <= furthest < place:
            begins.append(place)
        furthest = max(furthest, last[order[place]])
    return begins


def turn_of(order: Sequence[int], begins: int = 0) -> Turn:
    """Return the iterations of one phase.

    Their order repeats itself exactly, or but for the number of steps that an optimizer takes in a row, as a
    critic that steps until it is good enough. Without any order the optimizer that steps least often ends
    them.
    """
    if len(set(order)) == 1:
        return Turn(order[0], begins=begins)
    if length := period(order):
        end = order[length - 1]
        return Turn(end, order[:length].count(end), begins, len(order) >= REPETITIONS * length)
    if turn := _by_rows(order, begins):
        return turn
    counts = Counter(order)
    fewest = min(counts.values())
    rarest = [optimizer for optimizer, count in counts.items() if count == fewest][-1]
    return Turn(rarest, 1, begins, is_settled=False)


def period(order: Sequence[int]) -> int:
    """Return the shortest length after which an order repeats itself; 0 if there is none."""
    for length in range(1, len(order) // 2 + 1):
        if order[length] == order[0] and all(
            order[place] == order[place - length] for place in range(length, len(order))
        ):
            return length
    return 0


def _by_rows(order: Sequence[int], begins: int) -> Turn | None:
    """Return iterations that end with the last optimizer with one row of constant length; None without one."""
    rows = [(optimizer, len(list(steps))) for optimizer, steps in groupby(order)]
    optimizers = [optimizer for optimizer, _ in rows]
    length = period(optimizers)
    for place in reversed(range(length)):
        steps = {count for _, count in rows[place:-1:length]}
        if len(steps) == 1 and optimizers[:length].count(optimizers[place]) == 1:
            return Turn(optimizers[place], steps.pop(), begins, len(rows) >= REPETITIONS * length)
    return None


def iteration_ends(order: Sequence[int], turns: Sequence[Turn]) -> list[int]:
    begins, ends = [*(turn.begins for turn in turns), len(order)], list[int]()
    for turn, (begin, end) in zip(turns, pairwise(begins), strict=True):
        places = [place for place in range(begin, end) if order[place] == turn.ends_with]
        ends += places[turn.every - 1 :: turn.every]
    return ends


class OptimizerTurns:
    """The turns of a script's optimizers, followed step by step.

    Attributes:
        order: the numbers of the optimizers that have stepped, up to `MOST_LOGGED`.
        turns: iterations of each phase so far, the present phase last.
        keys: keys of the optimizers, by number.
        has_late: an optimizer first stepped after `MOST_LOGGED` steps of others; its steps count as
            iterations.
    """

    def __init__(self) -> None:
        self.order: list[int] = []
        self.turns: list[Turn] = []
        self.keys: list[Key] = []
        self.has_late = False
        self._numbers: dict[Key, int] = {}
        self._logged = 0  # optimizers in the order
        self._next_look = 1
        self._ends_with, self._every = 0, 1
        self._begun: list[int] = []  # of the present iteration, at the last change
        self._steps = 0  # of the optimizer that ends the present iteration, in that iteration

    @property
    def is_full(self) -> bool:
        return len(self.order) >= MOST_LOGGED

    def stepped(self, optimizer: Key) -> tuple[bool, bool]:
        """Return whether a step ends an iteration, and whether earlier steps must be counted anew."""
        number = self._numbers.get(optimizer, -1)
        if number < 0:
            number = self._numbers[optimizer] = len(self.keys)
            self.keys.append(optimizer)
        if len(self.order) < MOST_LOGGED:
            self._logged = max(self._logged, number + 1)
            self.order.append(number)
            if len(self.order) >= self._next_look and self.look():
                return not self._begun, True
        if number == self._ends_with:
            self._steps = (self._steps + 1) % self._every
            return self._steps == 0, False
        is_late = number >= self._logged
        self.has_late |= is_late
        return is_late, False

    def stepped_again(self, steps: int) -> int:
        """Note steps of the only optimizer; return how many of them the order takes."""
        taken = min(steps, MOST_LOGGED - len(self.order))
        self.order += [0] * taken
        return taken

    def look(self) -> bool:
        if not self.order:
            return False
        self._next_look = int(LOOK_GROWTH * len(self.order)) + 1
        before, self.turns = self.turns, turns_of(self.order)
        if not before or _same(before, self.turns):
            return False
        ends = iteration_ends(self.order, self.turns)
        self._begun = self.order[ends[-1] + 1 if ends else 0 :]
        self._ends_with, self._every = self.turns[-1].ends_with, self.turns[-1].every
        self._steps = self._begun.count(self._ends_with)
        return True


def _same(turns: Sequence[Turn], others: Sequence[Turn]) -> bool:
    return [replace(turn, is_settled=True) for turn in turns] == [
        replace(turn, is_settled=True) for turn in others
    ]
