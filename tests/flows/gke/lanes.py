"""The cluster of the GKE lanes' tests: its pools, events, and the end of a run."""

import asyncio
import json

NAMESPACE = "gridbench"
NODE_AFTER_S = 2
# Of each hardware file with a node pool: accelerator, GPU by its price's name, machine type, purchase.
MACHINES = {
    "node-l4": ("nvidia-l4", "l4", "g2-standard-8", "on-demand"),
    "node-t4": ("nvidia-tesla-t4", "t4", "n1-standard-8", "on-demand"),
    "node-l4-spot": ("nvidia-l4", "l4", "g2-standard-8", "spot"),
}
POOLS = list(MACHINES)


def things(cluster, plural):
    return cluster.control.call(lambda: list(cluster.control.cluster.store.all(plural)))


def nodes_of(cluster):
    placed = [event for event in things(cluster, "events") if event["reason"] == "Scheduled"]
    return {event["involvedObject"]["name"]: event["message"].rpartition(" ")[2] for event in placed}


async def until(found, within_s=300):
    async with asyncio.timeout(within_s):
        while not (value := found()):
            await asyncio.sleep(0.1)
        return value


def notes(store):
    return json.loads((store.folder / "jobs.json").read_text())


async def finished(bench, run_id):
    state = await bench.end(run_id, within_s=500)
    assert state.is_completed(), state.message
    store = await bench.store(run_id)
    records, odd = store.records()
    assert not odd
    return store, records
