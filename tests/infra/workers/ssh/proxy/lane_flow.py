"""A flow with a task that uses the Prefect API like a lane."""

from uuid import UUID

from prefect import flow, get_run_logger, task
from prefect.runtime import flow_run

from tasks.delivery.job_orders import wait_for_order
from tasks.delivery.record_uploader import RecordUploader
from tasks.travel.code_download import download_code
from workloads.harness.records.case import Case
from workloads.harness.records.record import Verdict
from workloads.harness.records.repeat import Repeat

CODE, CONTENT = f"sha256:{'ab' * 32}", b"code in two pieces"
REPEATS = [Repeat("a-run", "a-box", Case.of("matmul", {"n": 8}), repeat=number) for number in (1, 2)]


@task
def measured(value):
    return value


@flow(retries=0, version="1")
def lane():
    get_run_logger().info("measuring")
    measured(1)
    me = UUID(flow_run.get_id())
    with RecordUploader(me, print) as uploader:
        assert download_code(me, CODE) == CONTENT
        for repeat in wait_for_order(me):
            uploader.put(repeat.failed(Verdict.OK, "fine"))
