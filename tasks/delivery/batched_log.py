"""Several lines in one message: Prefect Cloud counts messages."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self


class BatchedLog:
    """Call it with a line: it logs lines together, at a limited rate."""

    def __init__(self, say: Callable[[str], None], every_s: float) -> None:
        self._say, self._every_s = say, every_s
        self._lines: list[str] = []
        self._said_at = float("-inf")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._flush()

    def __call__(self, line: str) -> None:
        self._lines.append(line)
        if time.monotonic() - self._said_at >= self._every_s:
            self._flush()

    def _flush(self) -> None:
        if self._lines:
            self._say("\n".join(self._lines))
            self._lines.clear()
            self._said_at = time.monotonic()
