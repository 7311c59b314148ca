import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from prefect.client.schemas.actions import DeploymentUpdate
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    FlowRunFilter,
    FlowRunFilterDeploymentId,
)
from prefect.client.schemas.schedules import IntervalSchedule

from tasks.regressions.gate_file import read_verdicts
from tasks.store.store import Store
from tests.flows.nightly.watched_case import SPEEDS
from tests.tasks.examples.nights import keep
from workloads.harness.engine.sampling.summary import summarise

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a real Prefect server and its workers answer late where the machine is busy"
)

PLANTED = SPEEDS | {"matmul": 0.012}


def earlier(results, count):
    """Write `count` slightly different nights before the only one."""
    (folder,) = results.iterdir()
    store = Store(folder)
    plan, (records, _) = store.plan, store.records()
    for number in range(1, count + 1):
        at = datetime.fromisoformat(plan.created_at) - timedelta(days=number)
        name = f"{at:%Y%m%d-%H%M%S}-watch-{number:04x}"
        factor = 1 + 0.003 * (-1) ** number
        made = [
            replace(r, run=name, wall=summarise(tuple(s * factor for s in r.wall.samples_s), 1, True, True))
            for r in records
        ]
        keep(results, plan.model_copy(update={"run": name, "created_at": at.isoformat()}), made)


async def test_a_planted_slowdown_fails_the_night_files_one_ticket_and_is_reported(bench, watch, told):
    _, state = await watch(SPEEDS)
    assert state.is_completed() and "2 warming" in state.message, state.message
    earlier(watch.results, 12)
    slow, state = await watch(PLANTED)
    assert state.is_failed() and state.name == "Regressed", state
    assert "watched/matmul/n=500/fp32" in state.message and "nap" not in state.message
    (night,) = [f for f in watch.results.iterdir() if (v := read_verdicts(f)) and v.tickets]
    verdicts = read_verdicts(night)
    (ticket,) = verdicts.tickets
    assert ticket.kind == "regression" and ticket.share == pytest.approx(0.2, abs=0.02)
    (again,) = verdicts.confirmations
    confirming = Store(watch.results / again)
    assert confirming.plan.night.confirms == night.name and len(confirming.records()[0]) == 5 * 2
    (page,) = night.glob("ticket-*.html")
    assert ticket.sentence in " ".join(page.read_text().split())
    wanted = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[slow]))
    async with bench.client() as client:
        shown = {found.key: found for found in await client.read_artifacts(artifact_filter=wanted)}
    assert {"nightly-summary", "nightly-series"} <= shown.keys()
    assert ticket.sentence in shown["nightly-summary"].data and str(page) in shown["nightly-summary"].data

    async with asyncio.timeout(240):
        while len(told) < 2:
            await asyncio.sleep(0.2)
    assert all(ticket.sentence in message and str(slow) in message for message in told)
    assert sum(str(page) in message for message in told) == 1, "the team of this machine has the ticket"


@pytest.mark.chaos
async def test_a_night_in_sessions_spreads_its_repeats_and_those_of_its_suspects(bench, watch):
    spread = {"sessions": 2, "repeats": 4, "hours_apart": 0.002}
    gap = timedelta(hours=spread["hours_apart"])
    _, state = await watch(SPEEDS, **spread)
    assert state.is_completed() and "2 warming" in state.message, state.message
    earlier(watch.results, 12)
    _, state = await watch(PLANTED, **spread)
    assert state.name == "Regressed", state
    (night,) = [f for f in watch.results.iterdir() if (v := read_verdicts(f)) and v.tickets]
    (again,) = read_verdicts(night).confirmations
    for folder, count in ((night, 2 * 4), (watch.results / again, 5 * 4)):
        store = Store(folder)
        records = store.records()[0]
        assert (store.plan.sessions, store.plan.session_gap_s, len(records)) == (2, 7.2, count)
        sides = [[datetime.fromisoformat(r.started_at) for r in records if r.session == k] for k in (1, 2)]
        assert len(sides[0]) == len(sides[1]) and min(sides[1]) - max(sides[0]) >= gap - timedelta(seconds=1)


@pytest.mark.chaos
async def test_a_night_begins_by_its_schedule(bench, watch):
    (watch.results.parent / "speeds.json").write_text(json.dumps(SPEEDS))
    asked = {"suite": "watch", "hardware": ["watched"], "results": str(watch.results)}
    soon = IntervalSchedule(
        interval=timedelta(hours=12), anchor_date=datetime.now(UTC) + timedelta(seconds=15)
    )
    async with bench.client() as client:
        deployment = await client.read_deployment_by_name("nightly/nightly")
        await client.update_deployment(deployment.id, DeploymentUpdate(parameters=asked))
        (made,) = await client.create_deployment_schedules(deployment.id, [(soon, True)])
        await client.resume_deployment(deployment.id)
        try:
            wanted = FlowRunFilter(deployment_id=FlowRunFilterDeploymentId(any_=[deployment.id]))
            async with asyncio.timeout(150):
                while not (begun := await begun_by_schedule(client, wanted)):
                    await asyncio.sleep(0.5)
            state = await bench.end(begun[0].id)
        finally:
            await client.pause_deployment(deployment.id)
            await client.delete_deployment_schedule(deployment.id, made.id)
    assert state.is_completed() and "2 warming" in state.message, state


async def begun_by_schedule(client, wanted):
    runs = await client.read_flow_runs(flow_run_filter=wanted)
    return [run for run in runs if run.auto_scheduled and not run.state.is_scheduled()]
