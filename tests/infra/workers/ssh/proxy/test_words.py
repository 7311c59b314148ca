import json

import pytest
from prefect.events.schemas.events import Event

from infra.workers.ssh.proxy import bodies
from infra.workers.ssh.proxy.events import HEARD, _asked_names, subject_of
from infra.workers.ssh.proxy.limits import Allowances, Refusal
from tests.infra.workers.ssh.proxy.test_rules import LINE, OWN, event

ESCAPES = "\x1b[2J\x1b]0;owned\x07\u202e\u2028"
FORGED = f"a\nBox forged, flow run x: all is fine {ESCAPES}"


def refusals():
    yield lambda: bodies.update_body(OWN, json.dumps({FORGED: 1}).encode(), Allowances())
    yield lambda: bodies.state_body(OWN, json.dumps({"state": {"type": FORGED}}).encode(), Allowances())
    yield lambda: bodies.lines_body(OWN, json.dumps([LINE | {FORGED: 1}]).encode(), Allowances())
    yield lambda: subject_of(OWN, event("prefect.task-run.Running", f"prefect.task-run.{FORGED}", runs=()))
    yield lambda: subject_of(OWN, event(FORGED, f"prefect.flow-run.{FORGED}"))


@pytest.mark.parametrize("refuse", [*refusals()])
def test_no_refusal_forges_a_line_of_the_log(refuse):
    with pytest.raises(Refusal) as caught:
        refuse()
    assert not set(str(caught.value)) & set("\n\r\x1b\x07\u202e\u2028") and len(str(caught.value)) <= 300


def test_names_messages_and_log_lines_go_on_printable():
    asked = {"state": {"type": "FAILED", "name": ESCAPES + "No", "message": f"first\n{ESCAPES}second"}}
    sent = bodies.state_body(OWN, json.dumps(asked).encode(), Allowances())["state"]
    assert (sent["name"], sent["message"]) == ("\ufffd No", "first\n\ufffd second")
    line = LINE | {"message": f"1\n\t{ESCAPES}2", "flow_run_id": str(OWN)}
    (sent,) = bodies.lines_body(OWN, json.dumps([line]).encode(), Allowances())
    assert sent["message"] == "1\n \ufffd 2"


@pytest.mark.parametrize("task_run", [[], ["id"], "id", 1])
def test_the_payload_of_an_event_can_be_anything(task_run):
    told = Event.model_validate(event().model_dump() | {"payload": {"task_run": task_run}})
    if not task_run:
        assert subject_of(OWN, told)
        return
    with pytest.raises(Refusal):
        subject_of(OWN, told)


@pytest.mark.parametrize(
    "message", ["[" * 200_000, "[]", '{"filter": {"event": []}}', '{"filter": {"event": {"name": 1}}}']
)
def test_a_filter_that_makes_no_sense_asks_for_all_that_an_engine_hears(message):
    assert _asked_names(message) == HEARD


def test_names_of_a_filter_that_are_no_texts_are_left_out():
    name = next(iter(HEARD))
    asked = {"filter": {"event": {"name": [name, 1, None, [[]]]}}}
    assert _asked_names(json.dumps(asked)) == {name}
