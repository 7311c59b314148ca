"""Sentences that would come again and again: said at once, then rarely."""

import time
from dataclasses import dataclass, field

AGAIN_S = 900.0  # four lines an hour while a trouble lasts


@dataclass(slots=True)
class Seldom:
    """Tell which sentences are due to be said."""

    again_s: float = AGAIN_S
    _said_at: dict[str, float] = field(default_factory=dict)

    def due(self, text: str) -> bool:
        """Return whether to say a sentence now: the first time, and again after a while."""
        now = time.monotonic()
        if now - self._said_at.get(text, -self.again_s) < self.again_s:
            return False
        self._said_at[text] = now
        return True
