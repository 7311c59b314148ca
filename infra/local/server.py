"""Prefect's server with garbage collection off the event loop: `python -m infra.local.server --port 4200`.

Collecting a statement of SQLite needs its connection's lock, which a thread that waits for the database holds
for up to a minute. On the event loop that is a deadlock, because the blocking transaction continues only
there.
"""

import gc
import sys
import threading
import time
from typing import NoReturn

PAUSE_S = 1.0
ROUNDS_TO_A_FULL_ONE = 60


def collect_elsewhere() -> None:
    """Collect garbage in a thread, so that its waits block no request."""
    gc.disable()
    threading.Thread(target=_collect, name="garbage", daemon=True).start()


def _collect() -> NoReturn:
    """Collect garbage for ever, without the 600,000 objects of the start: they take 0.6 s of CPU."""
    _round()
    gc.freeze()
    while True:
        _round()


def _round() -> None:
    for _ in range(ROUNDS_TO_A_FULL_ONE):
        time.sleep(PAUSE_S)
        gc.collect(1)
    gc.collect()


if __name__ == "__main__":
    collect_elsewhere()
    from prefect.cli import app

    sys.argv = ["prefect", "server", "start", *sys.argv[1:]]
    app()
