"""A flow that does with the Prefect API what a lane does, and has a task."""

from uuid import UUID

from prefect import flow, get_run_logger, task
from prefect.runtime import flow_run

from tasks.delivery.courier import Courier
from tasks.delivery.orders import own_order
from tasks.travel.placing import own_code
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
    with Courier(me, print) as courier:
        assert own_code(me, CODE) == CONTENT
        for repeat in own_order(me):
            courier.put(repeat.failed(Verdict.OK, "fine"))
