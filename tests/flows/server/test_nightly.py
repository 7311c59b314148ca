"""Nights through a real server, a real worker and its lanes, on a machine whose speed is known."""

import asyncio
import json
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest
from prefect.client.schemas.actions import DeploymentUpdate
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterParentFlowRunId,
)
from prefect.client.schemas.schedules import IntervalSchedule

from gridbench.run.session import ROOT
from tasks.regressions.gate_file import read_verdicts
from tasks.store.store import Store
from tests.tasks.examples.nights import keep
from workloads.harness.engine.timing import summarise

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a real Prefect server and its workers answer late where the machine is busy"
)

WATCHED = Path(__file__).parents[1] / "watched.py"
MACHINE = """
title: A machine whose speed is known
pool: local
box: local
device: cpu
price: {{usd_per_hour: 0.10, purchase: assumption, source: of a test, date: 2026-11-21}}
command: [{python}, {watched}, {speeds}]
"""
SUITE = """
title = "Two cases that are watched"
repeats = 2
minutes = 0.1
[[cases]]
workload = "matmul"
size = { n = 500 }
[[cases]]
workload = "nap"
size = { ms = 5 }
"""
SPEEDS = {"matmul": 0.010, "nap": 0.005}
PLANTED = SPEEDS | {"matmul": 0.012}


@pytest.fixture
async def watch(bench, tmp_path):
    """A machine, a suite, and the deployment that a schedule would run, which stays still here."""
    folder, speeds = Path(bench.environment["GRIDBENCH_DEPLOYMENTS"]), tmp_path / "speeds.json"
    machine = MACHINE.format(python=sys.executable, watched=WATCHED, speeds=speeds)
    (folder / "hardware" / "watched.yaml").write_text(machine)
    (folder / "suites" / "watch.toml").write_text(SUITE)
    deployment = await bench.nightly()
    results = tmp_path / "results"

    async def start(told):
        speeds.write_text(json.dumps(told))
        asked = {"suite": "watch", "hardware": ["watched"], "results": str(results)}
        async with bench.client() as client:
            return (await client.create_flow_run_from_deployment(deployment.id, parameters=asked)).id

    async def night(told):
        run_id = await start(told)
        return run_id, await bench.end(run_id)

    night.results, night.start = results, start
    yield night
    for path in (folder / "hardware" / "watched.yaml", folder / "suites" / "watch.toml"):
        path.unlink()


def earlier(results, count):
    """As many nights before the only one that there is, each a little different, by the writers of real ones."""
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


@pytest.fixture
def told(bench):
    """What the server's notification block sends, to a web server here."""
    heard = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self):
            heard.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Hook) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        words = {
            "name": "team",
            "url": f"http://127.0.0.1:{server.server_port}/",
            "json_data": {"text": "{{body}}"},
        }
        block = f"CustomWebhookNotificationBlock(**{words!r}, allow_private_urls=True).save('team', overwrite=True)"
        code = f"from prefect.blocks.notifications import CustomWebhookNotificationBlock\n{block}"
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=120)
        command = [Path(sys.executable).with_name("gridbench"), "alert", "custom-webhook/team"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120, cwd=ROOT)
        assert "a night that ends failed is told by custom-webhook/team" in done.stdout
        yield heard
        subprocess.run([*command, "--off"], check=True, capture_output=True, timeout=120, cwd=ROOT)
        server.shutdown()


async def test_a_planted_slowdown_fails_the_night_files_one_ticket_and_is_told_once(bench, watch, told):
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

    async with asyncio.timeout(60):
        while not told:
            await asyncio.sleep(0.2)
    assert ticket.sentence in told[0] and str(slow) in told[0]

    _, state = await watch(PLANTED)
    assert state.is_completed() and "Nothing has got worse" in state.message, state.message


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


def measuring():
    return [p for p in psutil.process_iter(["cmdline"]) if str(WATCHED) in (p.info["cmdline"] or ())]


@pytest.mark.chaos
async def test_a_cancelled_night_ends_all_that_it_has_under_way(bench, watch):
    night = await watch.start(SPEEDS | {"pause_s": 300})
    async with asyncio.timeout(150):
        while not measuring():
            await asyncio.sleep(0.2)
    await bench.cancel(night)
    assert (await bench.end(night)).is_cancelled()
    inside = FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[night]))
    async with asyncio.timeout(120), bench.client() as client:
        while not all(
            run.state.is_cancelled() for run in await client.read_flow_runs(flow_run_filter=inside)
        ):
            await asyncio.sleep(0.5)
        while measuring():
            await asyncio.sleep(0.2)
        (child,) = await client.read_flow_runs(flow_run_filter=inside)
    assert (watch.results / child.name / "plan.json").is_file()
