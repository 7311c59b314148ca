"""Objects on a Prefect server that a box must not reach, and a snapshot of all."""

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from prefect import task
from prefect.blocks.system import Secret
from prefect.client.schemas.actions import ArtifactCreate, WorkPoolCreate
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import ObjectAlreadyExists
from prefect.states import Running
from prefect.variables import Variable

from infra.workers.ssh.worker import SshWorker
from tests.infra.workers.worker_prefect import Prefect

HERE = Path(__file__).parent
POOL = "own boxes"
SECRET = "the-private-key-of-another-box"
LISTED = ("flows", "deployments", "flow_runs", "task_runs", "artifacts", "block_documents", "variables")
CHANGING = {
    "updated",
    "estimated_run_time",
    "estimated_start_time_delta",
    "last_polled",
    "status",
    "total_run_time",
}


@task(name="cell")
def cell():
    pass


@dataclass
class Belongings:
    """Another lane's flow run, with a task run and a record, a secret, a variable; and both lanes' deployment."""

    prefect: Prefect
    deployment_id: UUID
    other: FlowRun
    task_run_id: UUID
    artifact_id: UUID
    block_id: UUID

    @classmethod
    async def make(cls, prefect):
        async with prefect.client() as client:
            flow_id = await client.create_flow_from_name("lane")
            steps = [{"prefect.deployments.steps.set_working_directory": {"directory": str(HERE)}}]
            template = SshWorker.get_default_base_job_template()
            template["variables"]["properties"]["image"]["default"] = SECRET
            with suppress(ObjectAlreadyExists):
                made = WorkPoolCreate(name=POOL, type="ssh", base_job_template=template)
                await client.create_work_pool(made)
            deployment_id = await client.create_deployment(
                flow_id=flow_id,
                name="ssh",
                entrypoint="lane_flow.py:lane",
                pull_steps=steps,
                work_pool_name=POOL,
                job_variables={"env": {"A_KEY": SECRET}},
            )
            other = await client.create_flow_run_from_deployment(deployment_id, name="other", state=Running())
            await client.create_flow_run_input(other.id, "repeats", SECRET)
            task_run = await client.create_task_run(cell, other.id, "0", state=Running())
            record = ArtifactCreate(
                key="other-record", type="bench-record", data=SECRET, flow_run_id=other.id
            )
            artifact = await client.create_artifact(record)
            await Variable.aset("a_variable", SECRET, overwrite=True)
            block_id = await Secret(value=SECRET).save("a-key", overwrite=True)
        return cls(prefect, deployment_id, other, task_run.id, artifact.id, block_id)

    async def everything(self, without: UUID) -> str:
        """Return all of the server, except one flow run's objects."""
        found = {}
        async with self.prefect.client() as client:
            for name in LISTED:
                answer = await client.request("POST", f"/{name}/filter", json={})
                found[name] = [
                    {key: value for key, value in one.items() if key not in CHANGING}
                    for one in answer.json()
                    if str(without) not in (one.get("id"), one.get("flow_run_id"))
                ]
            answer = await client.request("POST", "/logs/filter", json={})
            found["logs"] = [one for one in answer.json() if one["flow_run_id"] != str(without)]
        return json.dumps(found, sort_keys=True)
