"""Judge a night, and publish it."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from prefect import get_client, get_run_logger, task
from prefect.artifacts import acreate_link_artifact, acreate_markdown_artifact, acreate_table_artifact
from prefect.cache_policies import NO_CACHE

from tasks.delivery.api_trouble import LOST_TOUCH, words_of
from tasks.delivery.events import Payload, slower
from tasks.dispatch.flow_runs import measuring
from tasks.dispatch.job_notes import spent_usd
from tasks.errors import GridbenchError
from tasks.publish import plain, report_url
from tasks.regressions.gate_file import FILE, LISTED, SeriesVerdict, Verdicts, write_verdicts
from tasks.regressions.night import JudgedNight, judge_night
from tasks.regressions.nightly_gate import SeriesState
from tasks.regressions.series_reader import confirmations
from tasks.regressions.tickets import verdicts_of
from tasks.store.address import ResultsAddress
from tasks.store.bucket import Bucket, hand_in, send
from tasks.store.store import Store
from tasks.store.sync import bring

MOST_ROWS = 500
LONGEST = timedelta(days=2)  # duration of a run: an older unfinished one was interrupted
FIRST = (
    SeriesState.CONFIRMED,
    SeriesState.SUSPECT,
    SeriesState.MISSING,
    SeriesState.CLEARED,
    SeriesState.WATCHING,
    SeriesState.WARMING,
)


@task(name="judge", cache_policy=NO_CACHE, persist_result=False)
async def judge_stored_night(results: ResultsAddress, run: str) -> JudgedNight:
    """Judge a night of a store by the completed nights before it.

    Raises:
        GridbenchError: the store cannot be read, or has no such night.
    """
    folder = await asyncio.to_thread(bring, results, ("results.parquet", FILE))
    return await asyncio.to_thread(judge_night, folder, run, await _under_way(folder, run))


async def _under_way(folder: Path, run: str) -> list[str]:
    """Return runs whose absent records are not missing yet."""
    since = datetime.now(UTC) - LONGEST
    fresh = [path.parent for path in folder.glob("*/plan.json") if path.stat().st_mtime > since.timestamp()]
    names = [path.name for path in fresh if path.name != run and not (path / "results.parquet").is_file()]
    async with get_client() as client:
        return [name for name in names if await measuring(client, name)]


@task(cache_policy=NO_CACHE, persist_result=False)
async def publish_night(judged: JudgedNight, results: ResultsAddress) -> Verdicts:
    """Write the night's verdicts and tickets, and show them in the UI.

    An unreachable bucket or UI is only a logged warning.

    Raises:
        GridbenchError: the folder cannot be written.
    """
    from tasks.report.html.tickets import write_tickets  # slow: imports plotting libraries

    verdicts, folder, log = verdicts_of(judged), judged.night.folder, get_run_logger()
    pages = write_tickets(folder, judged, verdicts)
    write_verdicts(folder, verdicts)  # last: a night that has this file is judged
    links = [report_url(page) for page in pages]
    try:
        bucket = await asyncio.to_thread(Bucket.of, results)
        links = [await hand_in(Store(folder, bucket), page) or report_url(page) for page in pages] or links
        if not pages:
            await send(Store(folder, bucket))
    except GridbenchError as error:
        log.warning(str(error))
    for link, ticket in zip(links, verdicts.tickets, strict=False):
        if ticket.is_bad:
            share = ticket.share or 0.0
            payload = Payload(sentence=ticket.sentence, share=share, ticket=link, run=verdicts.run)
            slower(ticket.hardware, ticket.cases, payload, verdicts.channel)
    try:
        await _show(verdicts, links)
    except LOST_TOUCH as error:
        log.warning(f"the night could not be published in the UI: {words_of(error)}")
    return verdicts


async def _show(verdicts: Verdicts, links: Sequence[str]) -> None:
    await acreate_markdown_artifact(night_summary(verdicts, links), key="nightly-summary")
    if verdicts.series:
        rows = [series_row(v) for v in sorted(verdicts.series, key=lambda v: FIRST.index(v.state))]
        await acreate_table_artifact(rows[:MOST_ROWS], key="nightly-series", description=verdicts.answer)
    for number, (link, ticket) in enumerate(zip(links, verdicts.tickets[:LISTED], strict=False), start=1):
        await acreate_link_artifact(link, link_text=ticket.sentence, key=f"nightly-ticket-{number}")


def series_row(verdict: SeriesVerdict) -> dict[str, str]:
    return {
        "series": f"{verdict.hardware}/{verdict.case}",
        "state": str(verdict.state),
        "seconds": f"{verdict.seconds:.4g}" if verdict.seconds else "–",
        "z": f"{verdict.z:+.1f}" if verdict.z is not None else "–",
        "change": f"{verdict.share:+.1%}" if verdict.share is not None else "–",
        "smallest detectable change": f"{verdict.smallest_change:.1%}" if verdict.smallest_change else "–",
        "nights": str(verdict.nights),
        "because": " ".join(verdict.because),
    }


def night_summary(verdicts: Verdicts, links: Sequence[str]) -> str:
    """Return markdown, tickets first, external text escaped."""
    lines = [f"# Night {verdicts.run}", "", plain(verdicts.answer), ""]
    tickets = zip(links, verdicts.tickets, strict=False)
    lines += [f"- [{ticket.kind}: {plain(ticket.sentence)}]({link})" for link, ticket in tickets]
    lines += [f"- {plain(sentence)}" for sentence in verdicts.odd[-LISTED:]]
    return "\n".join(lines) + "\n"


def spent_on(results: ResultsAddress, run: str) -> float:
    """Return the cost of lanes and confirmations, by `jobs.json`.

    Raises:
        GridbenchError: a plan cannot be read.
    """
    names = (run, *confirmations(results.folder).get(run, ()))
    return sum(spent_usd(Store(results.folder / name)) for name in names)
