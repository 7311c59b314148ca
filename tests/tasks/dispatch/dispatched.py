"""A dispatcher in the background, with jobs that a test answers."""

import asyncio

from tasks.delivery.pace import Pace
from tasks.dispatch.dispatcher import Dispatcher
from tasks.store.store import Store


def planned(store, plan, **changes):
    return Store.create(store.folder.parent, plan.model_copy(update=changes))


class Run:
    def __init__(self, store, budget_usd=None, poll_s=0.01):
        self.said = []
        self.lanes = Dispatcher(store, budget_usd, self.said.append, Pace(poll_s=poll_s))

    async def __aenter__(self):
        await self.lanes.__aenter__()
        self.cells = {
            cell: asyncio.create_task(self.lanes.records_of(cell)) for cell in self.lanes.plan.cells
        }
        return self

    async def __aexit__(self, *exc_info):
        for task in self.cells.values():
            task.cancel()
        await asyncio.gather(*self.cells.values(), return_exceptions=True)
        await self.lanes.__aexit__(*exc_info)

    async def ended(self):
        async with asyncio.timeout(120):
            done = await asyncio.gather(*self.cells.values())
        return [record for records in done for record in records]


async def until(condition):
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.005)


async def serve(api, but=()):
    while True:
        for job in list(api.jobs.values()):
            if (
                job.id in api.orders
                and not job.state.is_final()
                and not job.state.is_cancelling()
                and job.id not in but
            ):
                api.complete(job)
        await asyncio.sleep(0.005)
