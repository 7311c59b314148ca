"""A flow that does with the Prefect API what a lane does, and has a task."""

from prefect import flow, get_run_logger, task
from prefect.artifacts import Artifact


@task
def measured(value):
    return value


@flow(retries=0, version="1")
def lane():
    get_run_logger().info("measuring")
    measured(1)
    Artifact(type="bench-record", key="a-record", data={"value": 1}).create()
