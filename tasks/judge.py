"""What people see of a night: its `gate.json`, a page a ticket, and artifacts in the Prefect UI."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from prefect import get_client, get_run_logger, task
from prefect.artifacts import acreate_link_artifact, acreate_markdown_artifact, acreate_table_artifact
from prefect.cache_policies import NO_CACHE

from tasks.dispatch.flow_runs import measuring
from tasks.dispatch.job_notes import spent_usd
from tasks.dispatch.mailbox import LOST_TOUCH, words_of
from tasks.errors import GridbenchError
from tasks.publish import plain, report_url
from tasks.regressions.gate_file import FILE, LISTED, SeriesVerdict, Verdicts, write_verdicts
from tasks.regressions.night import Tonight, judge_night
from tasks.regressions.nightly_gate import State
from tasks.regressions.nights import confirmations
from tasks.regressions.tickets import verdicts_of
from tasks.store.bucket import Bucket, folder_of, hand_in, is_block, send
from tasks.store.store import Store
from tasks.store.sync import bring

MOST_ROWS = 500
LONGEST = timedelta(days=2)  # that a run takes: an older one that is not finished was cut short
FIRST = (State.CONFIRMED, State.SUSPECT, State.MISSING, State.CLEARED, State.WATCHING, State.WARMING)


@task(cache_policy=NO_CACHE, persist_result=False)
async def judge(results: str | None, run: str) -> Tonight:
    """Judge a night by those before it that are over, from the store's folder or its bucket.

    Raises:
        GridbenchError: the store can't be read, or has no such night.
    """
    folder = await asyncio.to_thread(bring, results or folder_of(None), ("results.parquet", FILE))
    return await asyncio.to_thread(judge_night, folder, run, await _under_way(folder, run))


async def _under_way(folder: Path, run: str) -> list[str]:
    """The runs that are being measured now: what they lack is not missing yet."""
    since = datetime.now(UTC) - LONGEST
    fresh = [path.parent for path in folder.glob("*/plan.json") if path.stat().st_mtime > since.timestamp()]
    names = [of.name for of in fresh if of.name != run and not (of / "results.parquet").is_file()]
    async with get_client() as client:
        return [name for name in names if await measuring(client, name)]


@task(cache_policy=NO_CACHE, persist_result=False)
async def publish_night(tonight: Tonight, results: str | None) -> Verdicts:
    """Write the night's verdicts and tickets, and show them in the UI.

    A bucket or a UI that is away costs no verdict: everything is in the folder, and the log says so.

    Raises:
        GridbenchError: the folder can't be written.
    """
    from tasks.report.html.tickets import (
        write_tickets,  # plotting libraries are slow to import: not before now
    )

    verdicts, folder = verdicts_of(tonight), tonight.night.folder
    pages = write_tickets(folder, tonight, verdicts)
    write_verdicts(folder, verdicts)  # last: a night that has it is judged
    links = [report_url(page) for page in pages]
    try:
        bucket = await asyncio.to_thread(Bucket.load, str(results)) if is_block(results) else None
        links = [await hand_in(Store(folder, bucket), page) or report_url(page) for page in pages] or links
        if not pages:
            await send(Store(folder, bucket))
    except GridbenchError as error:
        get_run_logger().warning(str(error))
    try:
        await _show(verdicts, links)
    except LOST_TOUCH as error:
        get_run_logger().warning(f"the night is not shown in the UI: {words_of(error)}")
    return verdicts


async def _show(verdicts: Verdicts, links: Sequence[str]) -> None:
    """The artifacts of a night."""
    await acreate_markdown_artifact(night_summary(verdicts, links), key="nightly-summary")
    if verdicts.series:
        rows = [series_row(one) for one in sorted(verdicts.series, key=lambda one: FIRST.index(one.state))]
        await acreate_table_artifact(rows[:MOST_ROWS], key="nightly-series", description=verdicts.answer)
    for number, (link, ticket) in enumerate(zip(links, verdicts.tickets[:LISTED], strict=False), start=1):
        await acreate_link_artifact(link, link_text=ticket.sentence, key=f"nightly-ticket-{number}")


def series_row(one: SeriesVerdict) -> dict[str, str]:
    """A series as a row of text."""
    return {
        "series": f"{one.hardware}/{one.case}",
        "state": str(one.state),
        "seconds": f"{one.seconds:.4g}" if one.seconds else "–",
        "z": f"{one.z:+.1f}" if one.z is not None else "–",
        "change": f"{one.share:+.1%}" if one.share is not None else "–",
        "smallest change it can show": f"{one.smallest_change:.1%}" if one.smallest_change else "–",
        "nights": str(one.nights),
        "because": " ".join(one.because),
    }


def night_summary(verdicts: Verdicts, links: Sequence[str]) -> str:
    """The night in markdown, its tickets first; what comes from outside can't become markup."""
    lines = [f"# Night {verdicts.run}", "", plain(verdicts.answer), ""]
    tickets = zip(links, verdicts.tickets, strict=False)
    lines += [f"- [{ticket.kind}: {plain(ticket.sentence)}]({link})" for link, ticket in tickets]
    lines += [f"- {plain(sentence)}" for sentence in verdicts.odd[-LISTED:]]
    return "\n".join(lines) + "\n"


def spent_on(results: str | None, run: str) -> float:
    """USD that a night's lanes have cost, with all that was measured again, as far as their `jobs.json` say.

    Raises:
        GridbenchError: a plan can't be read.
    """
    folder = folder_of(results)
    return sum(spent_usd(Store(folder / name)) for name in (run, *confirmations(folder).get(run, ())))
