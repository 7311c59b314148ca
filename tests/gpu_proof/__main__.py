"""Check that the measuring engine works on this GPU; print a table at the end.

    python3 -m tests.gpu_proof --out FOLDER [--minutes 9]
    python3 -m tests.gpu_proof --out FOLDER --resume FOLDER             # continues an earlier call
    python3 -m tests.gpu_proof --out FOLDER --only soak largest         # a separate call for long steps
    python3 -m tests.gpu_proof --out FOLDER --only EARLIER/proof.json   # only the failed steps

Needs the tree, torch, numpy and psutil; uses nvidia-ml-py and triton if present. No network, no installation.
"""

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from tests.gpu_proof.bench import Bench
from tests.gpu_proof.leave import Earlier, Report, earlier, made_ready
from tests.gpu_proof.plan import asked, proof
from tests.gpu_proof.table import NOT_RUN, Row, all_hold

SPARE_S = 10.0  # of the time, to end running processes and write the table
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 -m tests.gpu_proof",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--out", type=Path, default=Path("proof"), help="folder for what it leaves, under 2 MB"
    )
    parser.add_argument("--minutes", type=float, default=9.0, help="it has ended by then, whatever happens")
    parser.add_argument(
        "--device", choices=("cuda", "cpu"), default="cuda", help="cpu: tiny sizes, to try this code"
    )
    parser.add_argument(
        "--only", nargs="+", default=[], help="parts of steps' names, or an earlier proof.json"
    )
    parser.add_argument(
        "--resume", type=Path, help="folder of an earlier call: what it has not run is run, and the rest kept"
    )
    parser.add_argument("--soak", type=float, default=60.0, help="seconds of the step soak")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Return 0 where everything holds and all that is essential was run, else 1."""
    chosen = options(arguments)
    before = earlier(chosen.resume, chosen.device) if chosen.resume else Earlier()
    made_ready(chosen.out, chosen.resume)
    bench = Bench(
        chosen.out.absolute(), chosen.device, time.monotonic() + 60 * chosen.minutes - SPARE_S, chosen.soak
    )
    bench.clocks.update(before.clocks)
    report = Report(bench, datetime.now(UTC), before)
    watchdog = _watchdog(report, 60 * chosen.minutes)
    for number in SIGNALS:
        signal.signal(number, lambda number, _: bench.stop(f"stopped by {signal.Signals(number).name}"))
    monitor = _monitor(bench)
    try:
        for row in proof(bench, asked(chosen.only), before):
            report.add(row)
    finally:
        if monitor:
            bench.end(monitor)
        bench.forks.close()
        report.write()
        watchdog.cancel()
    return 0 if all_hold(report.rows) else 1


def _watchdog(report: Report, seconds: float) -> threading.Timer:
    """End this process on time even if it hangs, such as in a driver."""

    def give_up() -> None:
        report.bench.stop("no time was left")
        report.add(Row("plan", "the rest", NOT_RUN, "this process did not end in time by itself"))
        report.write()
        os._exit(1)

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    return timer


def _monitor(bench: Bench) -> subprocess.Popen[bytes] | None:
    """Keep the card's clocks, power and throttling, once a second, in dmon.txt."""
    if not bench.on_gpu:
        return None
    with suppress(OSError), open(bench.out / "dmon.txt", "a") as file:
        return bench.start(["nvidia-smi", "dmon", "-s", "pucvmet", "-d", "1"], file)
    return None


if __name__ == "__main__":
    sys.exit(main())
