"""The flow `lane`: the repeats of one machine."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from uuid import UUID

from prefect import State, flow, get_run_logger
from prefect.runtime import flow_run
from prefect.states import Cancelled, Completed, Failed

from infra.images.errors import ImageError
from infra.images.reference import standing
from tasks.delivery.batched_log import BatchedLog
from tasks.delivery.job_orders import wait_for_order
from tasks.delivery.own_run import OwnRun
from tasks.delivery.record_uploader import RecordUploader
from tasks.delivery.unsent_records import saved_record
from tasks.dispatch import preflight
from tasks.errors import GridbenchError
from tasks.planning.hardware import AUTO
from tasks.travel.code_download import download_code
from tasks.travel.job_setup import JobSetup, prepared
from tasks.travel.run_code import JobCode
from workloads.harness.records.record import Record
from workloads.harness.records.repeat import Repeat
from workloads.harness.repeat.forks import ForkServers
from workloads.harness.repeat.limits import tells_of_others
from workloads.harness.repeat.runs import COMMAND, run_repeat
from workloads.harness.repeat.script_runs import run_script
from workloads.harness.repeat.series import Other, measure_or_skip

ROOT = Path(__file__).parents[1]
START_S = 120.0  # at most, from the start of the job to that of this flow: container, imports
SPARE_S = 30.0  # the flow's own time to end


@flow(
    name="lane",
    description="Measures repeats of cells on the machine that it runs on, and sends each record.",
)
def lane(
    run: str,
    hardware: str,
    count: int,
    turns_with: list[str] | None = None,
    every_s: float = 0.0,
    timeout_s: float | None = None,
    command: list[str] | None = None,
    reference: list[str] | None = None,
    partner: list[str] | None = None,
    code: list[str] | None = None,
    workloads: str | None = None,
) -> State[None]:
    """Measure the repeats that `bench` has ordered, each in a separate process, and send each record.

    Args:
        run: the name of the run that they belong to.
        hardware: the machine that this is.
        count: how many repeats; they are an input of this flow run, because parameters are in every list.
        turns_with: other hardware entries of this machine, whose repeats take turns with its own; none by default.
        every_s: the shortest time between two uploads of records and between two lines of the log.
        timeout_s: the limit of this job, if it has one: records are sent until then.
        command: runs one repeat; the arguments of `python -m workloads` follow. This Python by default.
        reference: the same in a frozen environment, for a control of each repeat; `auto` for the one that
            this machine freezes by itself; none by default.
        partner: the same as `command` of another version, whose repeats take turns with these; none by default.
        code: ids of users' own code that this flow run was sent, as further inputs.
        workloads: the same of a folder of workloads.
    """
    deadline = time.monotonic() + timeout_s - START_S - SPARE_S if timeout_s else None
    me, log = UUID(str(flow_run.get_id())), get_run_logger()
    try:
        repeats = wait_for_order(me)
    except GridbenchError as error:
        return Failed(message=str(error))
    log.info(f"{count} repeats of run {run} on {' and '.join([hardware, *(turns_with or ())])}")
    words = tuple(command or COMMAND)
    os.chdir(ROOT)  # `python -m workloads` must find this checkout, wherever the worker runs its flows
    if hindrance := _hindrance(repeats, words, log.warning):
        return Failed(name=preflight.UNFIT, message=hindrance)
    sent, own = JobCode(tuple(code or ()), workloads), OwnRun(me, every_s)
    with BatchedLog(log.info, every_s) as say, RecordUploader(me, log.warning, every_s, deadline) as uploader:
        frozen = _frozen(tuple(reference or ()), say, log.warning)
        try:
            with prepared(repeats, words, sent, partial(download_code, me), say) as setup:
                measured = measure_all(
                    repeats, say, uploader.put, words, frozen, setup, own.must_stop, tuple(partner or ())
                )
        except GridbenchError as error:  # a script that can't be fetched
            return Failed(name=preflight.UNFIT, message=str(error))
    if own.ended:
        return Cancelled(message=f"{own.ended}; {measured} of {len(repeats)} repeats were measured before")
    return Completed(message=f"{measured} repeats measured")


def _frozen(
    reference: tuple[str, ...], say: Callable[[str], None], warn: Callable[[str], None]
) -> tuple[str, ...]:
    """Return the command of the reference; for `auto`, that of this machine's own, made if necessary."""
    if reference != (AUTO,):
        return reference
    try:
        return standing(say).command
    except ImageError as error:
        warn(f"no controls, because no environment could be frozen for them: {error}")
        return ()


def _hindrance(repeats: Sequence[Repeat], command: Sequence[str], warn: Callable[[str], None]) -> str:
    hindrance, warnings = preflight.check(repeats, command)
    for sentence in warnings:
        warn(sentence)
    return hindrance


def measure_all(
    repeats: Sequence[Repeat],
    say: Callable[[str], None],
    put: Callable[[Record], None],
    command: Sequence[str],
    reference: Sequence[str],
    setup: JobSetup | None = None,
    must_stop: Callable[[], bool] = lambda: False,
    partner: Sequence[str] = (),
) -> int:
    """Measure repeats in order; return their number.

    `must_stop` is called before each repeat. `reference` is the command in a frozen environment, empty for no
    controls; `partner` that of another version, empty for none.
    """
    ended: list[Record] = []
    setup = setup or JobSetup()
    with ForkServers.of(repeats, say) as forks:
        for number, repeat in enumerate(repeats, start=1):
            if must_stop():
                return number - 1
            say(f"[{number}/{len(repeats)}] {repeat.id}")
            other = _other(repeat, say, partner, setup)
            record = saved_record(repeat) or _measured(
                repeat, ended, say, command, reference, setup, forks, other
            )
            if tells_of_others(record):
                ended.append(record)
            put(record)
            say(f"{repeat.id}: {record.verdict.value} {'; '.join(record.reasons)}".rstrip())
            if record.control:
                say(f"its control: {record.control.verdict} {'; '.join(record.control.reasons)}".rstrip())
    return len(repeats)


def _measured(
    repeat: Repeat,
    ended: Sequence[Record],
    say: Callable[[str], None],
    command: Sequence[str],
    reference: Sequence[str],
    setup: JobSetup,
    forks: ForkServers,
    other: Other | None,
) -> Record:
    frozen = () if repeat.script else tuple(reference)  # a frozen environment lacks a script's packages
    with setup.environment(repeat):
        here, words = setup.repeat(repeat), setup.command(repeat, command)
        return setup.noted(repeat, measure_or_skip(here, ended, say, words, frozen, forks, other))


def _other(
    repeat: Repeat, say: Callable[[str], None], command: Sequence[str], setup: JobSetup
) -> Other | None:
    if not (repeat.partner or command):
        return None
    at_version = replace(repeat, script=repeat.partner, partner=None, profile=False)

    def measure(lock: int) -> Record:
        with setup.environment(at_version):
            here, words = setup.repeat(at_version), setup.command(at_version, command)
            return (run_script if here.script else run_repeat)(here, lock, say, words)

    return measure


if __name__ == "__main__":
    sys.exit("run this flow through Prefect: prefect deployment run lane/local")
