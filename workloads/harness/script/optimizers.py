"""Optimizers that step by turns: what makes an iteration of them."""

LONGEST = 16  # steps of optimizers in an iteration
LOOKED_AT = 2 * LONGEST  # later ones change nothing: an optimizer that comes then is one of another phase


class OptimizerTurns:
    """The order in which optimizers step. One alone makes an iteration with each step; several with a period.

    Attributes:
        length: steps of optimizers in an iteration, as far as is known.
        names: of the optimizers' classes, in the order in which they came.
    """

    def __init__(self) -> None:
        self.length = 1
        self.names: dict[str, None] = {}
        self._known: dict[int, int] = {}  # id of an optimizer to its number
        self._order: list[int] = []
        self._place = 0

    @property
    def is_looking(self) -> bool:
        """True while another length may still be found."""
        return len(self._order) < LOOKED_AT

    def stepped(self, optimizer: object) -> tuple[bool, bool]:
        """Note a step; return whether it ends an iteration, and whether their length has changed."""
        number = self._known.get(id(optimizer))
        if number is not None and len(self._order) == LOOKED_AT:  # nothing else for each of millions of steps
            self._place = (self._place + 1) % self.length
            return self._place == 0, False
        changed = False
        if number is None:
            number = self._known[id(optimizer)] = len(self._known)
            self.names[type(optimizer).__name__] = None
        if len(self._known) > 1 and len(self._order) < LOOKED_AT:
            changed = self._look(number)
        elif len(self._order) < LOOKED_AT:
            self._order.append(number)
        self._place = (self._place + 1) % self.length
        return self._place == 0, changed

    def _look(self, number: int) -> bool:
        """Find the period anew; return whether it is another one."""
        self._order.append(number)
        length = period(self._order)
        if length == self.length:
            return False
        self.length = length
        self._place = (len(self._order) - 1) % length
        return True


def period(order: list[int]) -> int:
    """Return the shortest length after which an order repeats itself; 1 if it doesn't.

    The first round need not be whole: an order that has not come round yet has the length of all of it.
    """
    for length in range(1, min(LONGEST, len(order)) + 1):
        if all(one == other for one, other in zip(order, order[length:], strict=False)):
            return length
    return 1
