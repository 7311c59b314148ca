import pytest
from prefect.events import AutomationCore
from prefect.settings import PREFECT_API_URL, temporary_settings

from gridbench.watch import alerts
from tasks.delivery import events
from tasks.errors import GridbenchError
from tasks.schema import read_mapping

FILES = sorted(alerts.FOLDER.glob("*.yaml"))


def test_each_file_has_a_name_that_the_command_takes():
    assert {path.stem for path in FILES} == alerts.EVENT_TEXT.keys() and len(FILES) > 3


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_prefect_takes_each_file_and_it_expects_events_that_are_reported(path):
    fields = {key: value for key, value in read_mapping(path).items() if key not in ("subject", "body")}
    trigger = AutomationCore.model_validate(fields | {"actions": []}).trigger
    ours = {events.CASE_SLOWER, events.ALL_SLOWER, events.LANE_LOST, events.BUDGET_SPENT}
    assert trigger.expect <= ours | {"prefect.flow-run.*"} and trigger.expect


def test_a_night_is_of_no_hardware():
    server = temporary_settings({PREFECT_API_URL: "http://127.0.0.1:1/api"})
    with server, pytest.raises(GridbenchError, match=r"--on gke-\*: .*--about slower"):
        alerts.alert("slack-webhook/team", on="gke-*")
