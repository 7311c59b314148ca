"""A stack whose worker rents boxes from the emulator."""

import asyncio
import contextlib
import time
from pathlib import Path

import prefect.settings as of
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelling, Completed, Running

from flows.holding import hold
from infra.workers.base.retry import call_until_answered
from tasks.dispatch.rental_labels import RELEASE, TAG, RentalStatus
from tasks.dispatch.rental_order import RentalOrder
from tests.emulators.lambda_cloud.quick import A10, nothing_left
from tests.emulators.prefect_api import client_of

ROOT = Path(__file__).parents[3]
WITHIN_S = 300  # of a machine that others use too


def asked(**changes):
    given = {"capacity_s": 100, "boot_s": 200, "most_s": 1000, "most_usd_per_hour": 5} | changes
    return RentalOrder(run="run-1", hardware="lambda-1x-a10", instances=(A10,), **given)


class Rentals:
    def __init__(self, stack, cloud):
        self.stack, self.cloud, self.deployments = stack, cloud, {}

    def client(self):
        return client_of(self.stack.api_url, self.stack.state)

    def settings(self):
        auth = self.stack.environment["PREFECT_API_AUTH_STRING"]
        return of.temporary_settings(
            {of.PREFECT_API_URL: self.stack.api_url, of.PREFECT_API_AUTH_STRING: auth}
        )

    async def deploy(self):
        steps = [{"prefect.deployments.steps.set_working_directory": {"directory": str(ROOT)}}]
        async with self.client() as client:
            flow_id = await client.create_flow_from_name("rental")
            self.deployments["default"] = await client.create_deployment(
                flow_id=flow_id,
                name="default",
                entrypoint="flows/rental.py:rental",
                work_pool_name="local",
                pull_steps=steps,
            )
            self.deployments["nowhere"] = await client.create_deployment(flow_id=flow_id, name="nowhere")

    async def start(self, name="default", **changes):
        return await self._made(name, parameters={"asked": asked(**changes).model_dump(mode="json")})

    async def _made(self, name, **options):
        async with self.client() as client:
            start = client.create_flow_run_from_deployment
            return (
                await call_until_answered(start, self.deployments[name], tags=[TAG, "run:run-1"], **options)
            ).id

    @contextlib.asynccontextmanager
    async def holding(self, **changes):
        """Run the flow in this process: a Prefect flow run takes longer to start than all the rest."""
        run_id = await self._made("nowhere", state=Running())
        with self.settings():
            task = asyncio.create_task(hold(asked(**changes), run_id, print))
        try:
            yield run_id, task
        finally:
            task.cancel()
            await asyncio.wait([task])
            async with self.client() as client:
                await call_until_answered(client.set_flow_run_state, run_id, Completed(), force=True)

    async def run(self, run_id):
        async with self.client() as client:
            return await call_until_answered(client.read_flow_run, run_id)

    async def until(self, run_id, when):
        deadline = time.monotonic() + WITHIN_S
        while not when(rental := RentalStatus.of((run := await self.run(run_id)).labels)):
            assert time.monotonic() < deadline and not run.state.is_final(), run.state
            await asyncio.sleep(0.2)
        return rental

    async def answering(self, run_id):
        return await self.until(run_id, lambda rental: rental.answers)

    async def end(self, run_id):
        deadline = time.monotonic() + WITHIN_S
        while not (state := (await self.run(run_id)).state).is_final():
            assert time.monotonic() < deadline, state
            await asyncio.sleep(0.2)
        return state

    async def release(self, run_id):
        async with self.client() as client:
            await call_until_answered(client.update_flow_run_labels, run_id, {RELEASE: True})

    async def cancel(self, run_id):
        async with self.client() as client:  # as the UI's button does
            await call_until_answered(client.set_flow_run_state, run_id, Cancelling(), force=True)

    async def block(self, name):
        async with self.client() as client:
            with contextlib.suppress(ObjectNotFound):
                return await client.read_block_document_by_name(name, "secret")
            return None

    async def all_gone(self, run_id):
        """Wait until nothing is left of a rental: hooks run after its last state."""
        deadline = time.monotonic() + WITHIN_S
        while True:
            rental = RentalStatus.of((await self.run(run_id)).labels)
            if nothing_left(self.cloud) and rental.returned and await self.block(rental.name) is None:
                return rental
            assert time.monotonic() < deadline, (rental, self.cloud.account.key_names())
            await asyncio.sleep(0.2)

    @contextlib.asynccontextmanager
    async def bench(self, run="run-1"):
        """Yield a flow run that seems to measure this run."""
        async with self.client() as client:
            flow_id = await client.create_flow_from_name("bench")
            deployment = await client.create_deployment(flow_id=flow_id, name="nothing")
            made = await client.create_flow_run_from_deployment(deployment, name=run, state=Running())
            try:
                yield
            finally:
                await call_until_answered(client.delete_flow_run, made.id)
