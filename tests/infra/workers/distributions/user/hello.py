"""A user's flow in the image; `python hello.py POOL IMAGE JOB_VARIABLES` deploys it."""

import json
import sys
import time

from prefect import flow
from prefect.client.orchestration import get_client
from prefect.runtime import flow_run


def told_to_go() -> bool:
    with get_client(sync_client=True) as client:
        return bool(client.read_flow_run(flow_run.id).labels.get("go"))


@flow(log_prints=True)
def hello(wait: bool = False) -> None:
    while wait and not told_to_go():
        time.sleep(0.5)
    print("Hello from the container!")


if __name__ == "__main__":
    pool, image, variables = sys.argv[1:]
    hello.deploy(
        name="hello",
        work_pool_name=pool,
        image=image,
        build=False,
        push=False,
        job_variables=json.loads(variables),
    )
