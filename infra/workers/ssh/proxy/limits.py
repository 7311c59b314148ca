"""Limits for a box."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ...base.printable import quoted

MIB = 1024 * 1024
BODY_BYTES = 5 * MIB  # Prefect's own batches of log lines have at most 4 MB
ARTIFACT_BYTES = EVENT_BYTES = MIB
ROW_BYTES = 200  # that the server stores for a line, an event or an artifact in addition to its text
CONNECTIONS = 32  # that have the token, at a time, and as many others: an engine has about ten
STRANGER_S = 10.0  # after which a connection without the token ends
FORBIDDEN, TOO_LATE, TOO_LARGE, BUSY = 403, 408, 413, 429
SHORTEST_S, LONGEST_S = 1, 60  # limits of the pause that a refusal requests


class Refusal(Exception):
    """A refused request; the message is one sentence for the box.

    `after_s` is when the box can try again; None if that is useless.
    """

    def __init__(self, sentence: str, status: int = FORBIDDEN, *, after_s: int | None = None) -> None:
        super().__init__(quoted(sentence))  # a part of it can be a box's text
        self.status, self.after_s = status, after_s


@dataclass
class Allowance:
    """An amount that can be spent at once (`most`), and grows back."""

    most: float
    per_s: float
    clock: Callable[[], float] = time.monotonic
    _left: float = field(init=False)
    _at: float = field(init=False)

    def __post_init__(self) -> None:
        self._left, self._at = self.most, self.clock()

    def take(self, amount: float = 1) -> float:
        """Spend an amount and return 0, or return the seconds until it is available."""
        now = self.clock()
        self._left = min(self.most, self._left + (now - self._at) * self.per_s)
        self._at = now
        if amount > self._left:
            return (amount - self._left) / self.per_s
        self._left -= amount
        return 0


@dataclass
class Allowances:
    """The allowances of one flow run, far above the needs of a flow of a thousand tasks.

    The server stores everything: at most 64 MiB and then 64 KiB a second, 1 GiB in four hours. `strangers`
    are requests without the token; `logged` are bytes read over SSH, with ROW_BYTES for each line.
    """

    requests: Allowance = field(default_factory=lambda: Allowance(300, 10))
    strangers: Allowance = field(default_factory=lambda: Allowance(60, 1))
    sent_bytes: Allowance = field(default_factory=lambda: Allowance(64 * MIB, 64 * 1024))
    logged: Allowance = field(default_factory=lambda: Allowance(64 * MIB, MIB / 60))
    artifacts: Allowance = field(default_factory=lambda: Allowance(2000, 2))
    lines: Allowance = field(default_factory=lambda: Allowance(20_000, 200))
    events: Allowance = field(default_factory=lambda: Allowance(5000, 50))


def spend(allowance: Allowance, amount: float, what: str) -> None:
    """Raise `Refusal` with the necessary pause if too little is left."""
    if wait_s := allowance.take(amount):
        after_s = min(max(SHORTEST_S, round(wait_s)), LONGEST_S)
        raise Refusal(f"too many {what}: try again in {after_s} s", BUSY, after_s=after_s)
