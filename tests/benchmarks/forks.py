"""A repeat in a fresh process against a fork of a process that has imported torch.

Steps: both processes exist at once and time a block in turns, so that disturbances affect both. Cost of a
record: its seconds without samples, by phase.
"""

import os
import socket
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from tests.benchmarks.workloads.turns import ASKS, CASES
from workloads.harness.records.intervals import log_mean_interval
from workloads.harness.records.record import Record
from workloads.harness.records.repeat import Repeat
from workloads.harness.registry import FOLDER, find
from workloads.harness.repeat.exclusive import whole_box
from workloads.harness.repeat.forks import ForkServers
from workloads.harness.repeat.runs import run_repeat

PAIRS, TURNS = 5, 400
RECORDS = (("matmul", {"n": 500}), ("image_pipeline", {"pixels": 512, "batch": 1}), ("mnist", {"batch": 8}))
MEASURES = ("warm_up", "samples", "compile")  # phases of the measurement itself
GOAL_S, GOAL_RATIO = 3.0, "0.99 to 1.01"


def main(pairs: int = PAIRS) -> None:
    """Print the ratio of times for each case, and the seconds of a record by phase."""
    for number, (name, _) in enumerate(CASES):
        print(steps(number, name, pairs), flush=True)
    records()


def steps(number: int, name: str, pairs: int) -> str:
    """Return the ratio of step times, with its interval over pairs of processes."""
    times: dict[bool, list[float]] = {False: [], True: []}
    for pair in range(pairs):
        for is_forked, seconds in _in_turns(number, name, pair).items():
            times[is_forked].append(
                statistics.quantiles(seconds, n=10)[0]
            )  # of blocks that nothing disturbed
    ratio = log_mean_interval([b / a for a, b in zip(times[False], times[True], strict=True)])
    widths = [
        f"±{100 * (max(column) / min(column) - 1) / 2:.1f} % {way}"
        for way, column in (("fresh", times[False]), ("forked", times[True]))
    ]
    return (
        f"a step, forked / fresh, {name}: {ratio.value:.4f} ({ratio.low:.4f} to {ratio.high:.4f} over {pairs} pairs, "
        f"goal {GOAL_RATIO}); between processes {' and '.join(widths)}"
    )


def _in_turns(number: int, name: str, pair: int) -> dict[bool, list[float]]:
    """Return seconds per step of alternate blocks of a fresh and a forked process."""
    workload = find("model_in_turns" if find(name).has_model else "in_turns")
    first = Repeat("perf", "here", workload.case({"number": number}), threads=1)
    with (
        tempfile.TemporaryDirectory() as folder,
        _listening(Path(folder) / "asks") as asks,
        ForkServers(print) as forks,
        whole_box() as lock,
    ):
        threads = [
            Thread(target=run_repeat, args=(first, lock, lambda text: None), kwargs={"start": start})
            for start in (None, forks.start)
        ]
        for thread in threads:
            thread.start()
        ends = [asks.accept()[0] for _ in threads]
        kinds = [end.recv(1) == b"1" for end in ends]
        assert sorted(kinds) == [False, True]
        blocks: dict[bool, list[float]] = {False: [], True: []}
        for turn in range(TURNS):
            for at in (0, 1) if (turn + pair) % 2 else (1, 0):
                ends[at].sendall(b"?")
                blocks[kinds[at]].append(float(ends[at].recv(100)))
        for end in ends:
            end.close()
        for thread in threads:
            thread.join()
    return blocks


@contextmanager
def _listening(path: Path) -> Iterator[socket.socket]:
    os.environ[ASKS], os.environ[FOLDER] = str(path), str(Path(__file__).parent / "workloads")
    with socket.socket(socket.AF_UNIX) as asks:
        asks.bind(str(path))
        asks.listen()
        yield asks


def records() -> None:
    """Print the seconds of quick records without samples: fresh, first of a fork server, forked."""
    cases = [find(name).case(size) for name, size in RECORDS]
    repeats = [Repeat("perf", "here", case, repeat=n, quick=True) for n in (1, 2, 3) for case in cases]
    by_start: dict[str, list[Record]] = {"fresh": [], "first of a fork server": [], "forked": []}
    with ForkServers(print) as forks, whole_box() as lock:
        for repeat in repeats:
            for start in (None, forks.start) if repeat.repeat % 2 else (forks.start, None):
                record = run_repeat(repeat, lock, lambda text: None, start=start)
                name = "forked" if record.inherited_s else "first of a fork server" if start else "fresh"
                by_start[name].append(record)
    for name, group in by_start.items():
        print(_cost(name, group), flush=True)


def _cost(name: str, group: list[Record]) -> str:
    phases = dict.fromkeys(phase for record in group for phase in record.phases_s)
    middle = {p: statistics.median(r.phases_s.get(p, 0.0) for r in group) for p in phases}
    costs = [r.wall_s - sum(r.phases_s.get(p, 0.0) for p in MEASURES) for r in group]
    parts = ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in middle.items() if seconds >= 0.005)
    return (
        f"a record without its measurement, {name}: {statistics.median(costs):.2f} s ({min(costs):.2f} to "
        f"{max(costs):.2f}, goal {GOAL_S:g} if forked); {parts}"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
