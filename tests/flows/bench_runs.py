"""The artifacts and the records of a run of `bench`."""

from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId


def contents(store):
    return {path: path.read_bytes() for path in (store.folder / "records").rglob("*.json")}


async def artifacts(bench, run_id):
    wanted = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run_id]))
    async with bench.client() as client:
        return {found.key: found for found in await client.read_artifacts(artifact_filter=wanted)}
