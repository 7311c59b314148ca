from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from uuid import uuid4

import pytest

from tasks import ask

NOW = datetime.now(UTC)


class Api:
    def __init__(self, message, **facts):
        nobody = {"auto_scheduled": False, "created_by": None, "parent_task_run_id": None}
        self.run = SimpleNamespace(**nobody | facts)
        late = SimpleNamespace(message="late", timestamp=NOW)
        self.states = [late, SimpleNamespace(message=message, timestamp=NOW - timedelta(seconds=9))]

    async def read_flow_run(self, flow_run_id):
        return self.run

    async def read_flow_run_states(self, flow_run_id):
        return self.states


@pytest.mark.parametrize("message", ["", "Run from the Prefect UI", "a message of somebody's own"])
async def test_a_button_or_the_form_leaves_a_message(message):
    assert await ask._started_in_the_ui(Api(message), uuid4())


@pytest.mark.parametrize(
    "api",
    [
        Api(None),
        Api("Flow run scheduled", auto_scheduled=True),
        Api("", created_by=SimpleNamespace(type="AUTOMATION")),
        Api("", parent_task_run_id=uuid4()),
    ],
    ids=["command", "schedule", "automation", "night"],
)
async def test_a_run_started_by_a_program_asks_no_question(api):
    assert not await ask._started_in_the_ui(api, uuid4())
