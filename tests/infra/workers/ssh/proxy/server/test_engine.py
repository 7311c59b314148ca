import asyncio
import copy
import json
import sys
from pathlib import Path

from prefect.bundles import create_bundle_for_flow_run
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    FlowRunFilter,
    FlowRunFilterId,
    LogFilter,
    LogFilterFlowRunId,
)
from prefect.states import Pending

from infra.workers.base.ad_hoc import unbundled_settings
from tasks.delivery.artifact_encoding import records_in
from tasks.delivery.job_orders import identity
from tests.infra.workers.ssh.proxy.box_side import far_end
from tests.infra.workers.ssh.proxy.inputs import send
from tests.infra.workers.ssh.proxy.lane_flow import REPEATS, lane

ROOT = Path(__file__).parents[6]


async def execute(far, run, folder, *command):
    """Run the flow like a container: it knows only the tunnel and its token."""
    env = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "PREFECT_API_URL": far.url,
        "PREFECT_API_AUTH_STRING": far.token,
        "PREFECT__FLOW_RUN_ID": str(run.id),
        "PYTHONPATH": str(ROOT),
        "DO_NOT_TRACK": "1",
    }
    engine = await asyncio.create_subprocess_exec(
        *(sys.executable, *command),
        env=env,
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await engine.communicate()
    return printed.decode()


async def test_a_bundle_runs_through_its_tunnel(locked, theirs, tmp_path, caplog):
    async with locked.client() as client:
        made = await client.create_flow_run(lane, state=Pending())
        await send(client, made.id)
        own = await client.read_flow_run(made.id)
    with locked.settings(), unbundled_settings():
        bound = copy.copy(lane)
        bound.launcher = [sys.executable]  # no `uv` installs anything
        bundle = create_bundle_for_flow_run(bound, own)["bundle"]
    (tmp_path / "bundle.json").write_text(json.dumps(bundle))
    code = "from prefect.bundles.execute import execute_bundle_from_file as run; run('bundle.json')"
    with locked.settings():
        async with far_end(own) as far:
            printed = await execute(far, own, tmp_path, "-c", code)
    async with locked.client() as client:
        assert (await client.read_flow_run(own.id)).state.is_completed(), printed
    assert not [record.message for record in caplog.records if "refused" in record.message]


async def test_a_lane_runs_through_its_tunnel(locked, own, tmp_path, caplog):
    with locked.settings():
        async with far_end(own) as far:
            printed = await execute(far, own, tmp_path, "-m", "prefect.engine")
    async with locked.client() as client:
        run = await client.read_flow_run(own.id)
        assert run.state.is_completed(), printed
        logs = await client.read_logs(LogFilter(flow_run_id=LogFilterFlowRunId(any_=[own.id])))
        assert "measuring" in [line.message for line in logs]
        records = await client.read_artifacts(
            artifact_filter=ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[own.id]))
        )
        delivered = [record for upload in records for record in records_in(upload.data, 2)[0]]
        assert {identity(record) for record in delivered} == {*map(identity, REPEATS)} and len(delivered) == 2
        for _ in range(600):  # the server records task runs a moment after their events
            tasks = await client.read_task_runs(
                flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[own.id]))
            )
            if tasks and tasks[0].state.is_completed():
                break
            await asyncio.sleep(0.2)
        assert [(each.name.partition("-")[0], each.state_name) for each in tasks] == [
            ("measured", "Completed")
        ]
    assert not [record.message for record in caplog.records if "refused" in record.message]
    assert "WARNING" not in printed and "ERROR" not in printed
