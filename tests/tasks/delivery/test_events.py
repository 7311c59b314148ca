import pytest
from prefect.events.schemas.events import Event
from prefect.settings import PREFECT_API_URL, temporary_settings

from tasks.delivery import events

NOWHERE = "http://127.0.0.1:1/api"


@pytest.fixture
def told(monkeypatch):
    heard = []

    def emit_event(event, resource, related, payload):
        heard.append(Event(event=event, resource=resource, related=related, payload=payload))

    monkeypatch.setattr(events, "emit_event", emit_event)
    with temporary_settings({PREFECT_API_URL: NOWHERE}):
        yield heard


def test_an_event_of_a_slower_case_names_the_case_and_its_hardware(told):
    events.slower("gke-l4", ["matmul/n=500/fp32"], {"sentence": "It is slower.", "share": 0.2}, "main")
    (event,) = told
    assert event.event == "gridbench.case.slower" and event.payload["share"] == 0.2
    assert event.resource.id == "gridbench.case.gke-l4.matmul/n=500/fp32"
    labels = {name: event.resource[f"gridbench.{name}"] for name in ("hardware", "workload", "channel")}
    assert labels == {"hardware": "gke-l4", "workload": "matmul", "channel": "main"}
    assert ("hardware", "gridbench.hardware.gke-l4") in {(r.role, r.id) for r in event.related}


def test_a_machine_on_which_many_cases_are_slower_is_one_event(told):
    cases = [f"matmul/n={n}/fp32" for n in range(200)]
    events.slower("gke-l4", cases, {"sentence": "x" * 10_000}, "main")
    (event,) = told
    assert (event.event, event.resource.id) == ("gridbench.hardware.slower", "gridbench.hardware.gke-l4")
    assert len(event.related) == events.LISTED and len(event.payload["sentence"]) == events.LONGEST
    assert event.related[0].id == "gridbench.hardware.gke-l4"


def test_a_lost_lane_and_a_spent_budget_name_hardware_and_run(told, plan):
    events.lane_lost(plan, "local-cpu", "lane local-cpu: no worker of pool local has started it", 10)
    events.budget_spent(plan, 1.0, 1.2345)
    lost, spent = told
    assert lost.event == "gridbench.lane.lost" and lost.resource.id == "gridbench.hardware.local-cpu"
    assert lost.payload == {
        "sentence": f"Run {plan.run} has lost its lane local-cpu: no worker of pool local has started it",
        "repeats": 10,
    }
    assert spent.event == "gridbench.budget.spent" and spent.resource.id == f"gridbench.run.{plan.run}"
    assert spent.payload["sentence"].endswith("stopped: 1.23 USD of its budget of 1 USD are spent")
    for event in told:
        hardware = {r.id for r in event.related if r.role == "hardware"}
        machines = {"local-cpu"} if event is lost else {"local-cpu-1", "local-cpu"}
        assert hardware == {f"gridbench.hardware.{name}" for name in machines}


def test_without_a_server_no_event_is_emitted(told, plan):
    with temporary_settings({PREFECT_API_URL: None}):
        events.budget_spent(plan, 1.0, 2.0)
    assert not told
