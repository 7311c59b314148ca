"""The flow `lane`, which a work pool runs: the repeats of one machine, one at a time, alone on the box."""

import os
import sys
from pathlib import Path

from prefect import State, flow, get_run_logger
from prefect.states import Completed, Failed

from tasks.dispatch import preflight
from tasks.dispatch.mailbox import kept, send
from workloads.harness.records.record import Record
from workloads.harness.records.repeat import Repeat
from workloads.harness.repeat.runs import COMMAND
from workloads.harness.repeat.series import measure_or_skip

ROOT = Path(__file__).parents[1]


@flow(
    name="lane",
    description="Measures repeats of cells on the machine that it runs on, and sends each record.",
)
def lane(
    repeats: list[Repeat], command: list[str] | None = None, reference: list[str] | None = None
) -> State[None]:
    """Measure `repeats` in their order, each in a fresh process, and send each record at once.

    Args:
        repeats: what to measure, as planned by `bench`.
        command: runs one repeat; the arguments of `python -m workloads` follow. This Python by default.
        reference: the same in a frozen environment, for a control of each repeat; none by default.
    """
    say, words = get_run_logger().info, tuple(command or COMMAND)
    os.chdir(ROOT)  # `python -m workloads` must find this checkout wherever the worker runs its flows
    hindrance, warnings = preflight.check(repeats, words)
    for sentence in warnings:
        get_run_logger().warning(sentence)
    if hindrance:
        return Failed(name=preflight.UNFIT, message=hindrance)
    ended: list[Record] = []
    for number, repeat in enumerate(repeats, start=1):
        say(f"[{number}/{len(repeats)}] {repeat.id}")
        record = kept(repeat) or measure_or_skip(repeat, ended, say, words, reference or ())
        ended.append(record)
        send(record, say)
        say(f"{repeat.id}: {record.verdict.value} {'; '.join(record.reasons)}".rstrip())
        if record.control:
            say(f"its control: {record.control.verdict} {'; '.join(record.control.reasons)}".rstrip())
    return Completed(message=f"{len(ended)} repeats measured")


if __name__ == "__main__":
    sys.exit("run this flow through Prefect: prefect deployment run lane/local")
