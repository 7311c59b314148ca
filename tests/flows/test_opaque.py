from uuid import uuid4

from prefect.client.schemas.objects import StateDetails
from prefect.states import Failed
from prefect.utilities.collections import visit_collection
from prefect.utilities.engine import collect_task_run_inputs_sync, resolve_to_final_result

from flows.opaque import opaque


def of_a_task():
    """Return a state, which Prefect takes for a task's result anywhere."""
    return Failed(state_details=StateDetails(task_run_id=uuid4()))


def test_a_task_depends_on_the_source_of_its_argument_and_not_on_its_content():
    state = of_a_task()
    assert [made.id for made in collect_task_run_inputs_sync(opaque(state))] == [
        state.state_details.task_run_id
    ]
    records = [[state]]
    assert collect_task_run_inputs_sync(records) and not collect_task_run_inputs_sync(opaque(records))


def test_a_task_gets_an_opaque_argument_itself():
    records = [[of_a_task()]]
    options = {"return_data": True, "remove_annotations": True, "context": {}}
    assert visit_collection(opaque(records), resolve_to_final_result, **options) is records
