"""The last lines of ranks: one that dies while it imports torch leaves no record, only standard error."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

from workloads.harness.repeat.runs import LAST_S, listen

STDERR = 2


@contextmanager
def overheard() -> Iterator[list[str]]:
    """Pass on what this process and its children say on standard error; yield its last lines."""
    own, (end, start) = os.dup(STDERR), os.pipe()
    os.dup2(start, STDERR)
    os.close(start)
    last_words: list[str] = []
    with os.fdopen(own, "w") as passed_on, os.fdopen(end, errors="replace") as stream:

        def say(text: str) -> None:
            print(text, file=passed_on, flush=True)

        thread = Thread(target=listen, args=(stream, say, last_words), daemon=True)
        thread.start()
        try:
            yield last_words
        finally:
            os.dup2(own, STDERR)
            thread.join(LAST_S)
