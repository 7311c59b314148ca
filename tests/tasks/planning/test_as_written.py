import json

import pytest

from tasks.errors import GridbenchError
from tasks.planning import hardware
from tasks.planning.as_written import check_machines
from tasks.planning.channel import Night, Version
from tasks.planning.cluster import Cluster
from tasks.planning.hardware import Hardware, hardware_names
from tasks.planning.plan import read_plan
from tasks.planning.planner import make_plan
from tasks.planning.rent_terms import RentTerms
from tasks.planning.request import RunRequest
from tasks.start import check_plan

RENTED = next(name for name in hardware_names() if hardware.load_hardware(name).rent)


def stored(plan):
    return read_plan(plan.model_dump_json(), "plan.json")


def with_machines(plan, *machines):
    return plan.model_copy(update={"hardware": machines, "baseline": machines[0].name})


def changed(plan, **fields):
    first, *others = plan.hardware
    return with_machines(plan, first.model_copy(update=fields), *others)


@pytest.fixture(scope="module")
def plan():
    return make_plan(RunRequest(suite="quick", hardware=("local-cpu", "local-cpu-1"), repeats=1))


@pytest.mark.parametrize("name", hardware_names())
def test_a_plan_of_files_is_as_they_are(plan, name):
    check_machines(stored(with_machines(plan, hardware.load_hardware(name))))


def test_copies_of_rented_machines_and_boxes_of_a_cluster_are_as_written():
    check_machines(stored(make_plan(RunRequest(hardware=(RENTED,), repeats=1, boxes=2))))
    boxes = [{"name": "a", "address": "10.0.0.1"}, {"name": "b", "address": "10.0.0.2", "key": "~/.ssh/b"}]
    cluster = Cluster.model_validate({"hardware": RENTED, "boxes": boxes})
    check_machines(stored(make_plan(RunRequest(cluster=cluster, repeats=1))))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"command": ("sh", "-c", "touch /tmp/pwned\x1b[2J")},
            ("command \"sh -c 'touch /tmp/pwned'\"", "has none"),
        ),
        ({"reference": ("/tmp/python",)}, ("reference '/tmp/python'", "has 'auto'")),
        ({"pool": "aws-batch"}, ("pool 'aws-batch'", "has 'local'")),
        ({"rent": RentTerms(provider="lambda", instances=("gpu_8x_h100",)), "pool": "ssh"}, ("pool 'ssh'",)),
        ({"job_variables": {"env": {"A": "s3cret"}}}, ("job_variables.env another value", "has none")),
        ({"job_variables": {"command": "sh -c id"}}, ("job_variables.command another value",)),
    ],
)
def test_a_plan_that_names_another_program_is_refused(plan, fields, words):
    with pytest.raises(GridbenchError) as caught:
        check_machines(stored(changed(plan, **fields)))
    text = str(caught.value)
    assert all(word in text for word in (*words, "local-cpu", "--trust-plan")), text
    assert "s3cret" not in text and "\x1b" not in text


FOUND = {
    "name": "box.example",
    "title": "a box",
    "pool": "ssh",
    "device": "cpu",
    "price": {"usd_per_hour": 1, "purchase": "assumption", "source": "here", "date": "2026-01-01"},
    "job_variables": {"hosts": [{"address": "box.example"}], "container_command": "none", "gpus": 0},
}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({}, None),
        ({"job_variables": FOUND["job_variables"] | {"python": "/opt/python"}}, None),
        ({"command": ["sh", "-c", "id"]}, "command"),
        ({"pool": "local"}, "pool"),
        ({"job_variables": {"command": "id"}}, "job_variables.command"),
    ],
)
def test_a_box_that_was_named_by_its_address_runs_the_usual_program(plan, changes, field):
    of_a_box = stored(with_machines(plan, Hardware.model_validate(FOUND | changes)))
    if field is None:
        check_machines(of_a_box)
        return
    with pytest.raises(GridbenchError, match=f"its plan has {field} "):
        check_machines(of_a_box)


def test_the_command_of_a_version_is_the_searchs_own_and_not_the_plans():
    version = Version(name="v1", command=("python-of-v1", "-m", "workloads"))
    night = Night(confirms="bisect-1", cases=("matmul/n=500/fp32",), version=version)
    request = RunRequest(hardware=("local-cpu",), repeats=1, night=night)
    plan = stored(make_plan(request))
    check_plan(plan, request.model_copy(update={"resume": plan.run}))
    with pytest.raises(GridbenchError, match="command 'python-of-v1"):
        check_plan(plan, RunRequest(resume=plan.run))


def test_a_plan_that_changes_after_the_command_has_checked_it_is_refused(plan):
    request = RunRequest(resume=plan.run, plan=plan)
    handed_over = RunRequest.model_validate(json.loads(request.model_dump_json(exclude_none=True)))
    check_plan(stored(plan), handed_over)
    with pytest.raises(GridbenchError, match="changed since"):
        check_plan(stored(changed(plan, command=("sh", "-c", "id"))), handed_over)
