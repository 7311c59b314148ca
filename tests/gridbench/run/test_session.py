"""A session: what it starts, which deployments it makes, which schedules it keeps still, and what it refuses."""

import os

import httpx
import pytest
import yaml

from gridbench.run import command
from gridbench.run import session as sessions
from gridbench.run.reach import check_reach
from infra.local import stack as stacks
from tasks.errors import GridbenchError
from tasks.planning.planner import make_plan
from tasks.planning.rent_terms import RentTerms
from tasks.planning.request import RunRequest

KEY = "LAMBDA_API_KEY"


@pytest.fixture
def plan():
    return make_plan(RunRequest(suite="quick", hardware=["local-cpu", "local-cpu-1"], repeats=1))


def moved(plan, pool, rent=None):
    """The plan with its last machine in another pool."""
    there, last = plan.hardware[:-1], plan.hardware[-1]
    elsewhere = last.model_copy(update={"name": "elsewhere", "pool": pool, "rent": rent})
    return plan.model_copy(update={"hardware": (*there, elsewhere)})


RENT = RentTerms(provider="lambda", instances=("gpu_1x_a10",))


def test_only_a_plan_with_boxes_behind_ssh_needs_their_worker(plan):
    assert sessions.pools_of(plan.hardware) == ("local",)
    assert sessions.pools_of(moved(plan, "ssh").hardware) == ("local", "ssh")
    assert sessions.pools_of(moved(plan, "aws-batch").hardware) == ("local",)


@pytest.mark.parametrize(
    ("pool", "rent", "environment", "refusal"),
    [
        ("local", None, {}, None),
        ("ssh", None, {}, None),
        ("ssh", RENT, {KEY: "secret"}, None),
        ("ssh", RENT, {}, "set LAMBDA_API_KEY to one from "),
        ("ssh", RENT, {KEY: "two words"}, "LAMBDA_API_KEY holds characters that no key has"),
        ("ssh", RENT, {"PREFECT_API_URL": "http://there/api"}, None),  # whose worker has the key
        ("aws-batch", None, {}, "elsewhere is measured by work pool aws-batch, whose machines must reach"),
        ("aws-batch", None, {"PREFECT_API_URL": "http://there/api"}, None),
    ],
)
def test_what_cannot_be_measured_from_here_is_refused(monkeypatch, plan, pool, rent, environment, refusal):
    monkeypatch.delenv(KEY, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if refusal is None:
        check_reach(moved(plan, pool, rent).hardware)
        return
    with pytest.raises(GridbenchError, match=refusal):
        check_reach(moved(plan, pool, rent).hardware)


def test_a_run_that_is_resumed_is_checked_and_served_like_a_new_one(monkeypatch, tmp_path, plan):
    asked = []
    monkeypatch.setattr(
        command, "find", lambda results, name: type("Found", (), {"plan": moved(plan, "ssh")})
    )
    monkeypatch.setattr(command, "check_budget", lambda plan, budget_usd: None)
    monkeypatch.setattr(command, "check_reach", lambda hardware: asked.append("checked"))

    def session(say, results, pools):
        raise GridbenchError(f"with {pools}")

    monkeypatch.setattr(sessions, "session", session)
    with pytest.raises(GridbenchError, match=r"with \('local', 'ssh'\)"):
        command.resume("a-run", results=tmp_path)
    assert asked == ["checked"]


def test_deployments_are_told_apart_by_their_names_alone():
    known = yaml.safe_load((sessions.ROOT / "prefect.yaml").read_text())["deployments"]
    names = [of["name"] for of in known]
    assert len(set(names)) == len(names)
    assert {of["name"] for of in known if "schedules" in of} >= sessions.NEEDS.keys()
    for of in known:
        assert (sessions.ROOT / of["entrypoint"].partition(":")[0]).is_file()


@pytest.fixture
def environment():
    """What a session sets is taken back."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def deployments(api_url):
    """Each deployment's flow and name, with its pool and whether it is paused."""
    with httpx.Client(base_url=api_url, timeout=60, trust_env=False) as api:
        flows = {flow["id"]: flow["name"] for flow in api.post("/flows/filter", json={}).json()}
        found = api.post("/deployments/filter", json={}).json()
    return {f"{flows[of['flow_id']]}/{of['name']}": (of["work_pool_name"], of["paused"]) for of in found}


@pytest.mark.chaos
def test_a_session_for_boxes_has_their_deployments_and_keeps_schedules_still(
    monkeypatch, tmp_path, environment
):
    monkeypatch.setattr(sessions, "STATE", tmp_path / "state")
    monkeypatch.delenv(KEY, raising=False)
    said = []
    with sessions.session(said.append, tmp_path / "results", pools=("local", "ssh")) as api:
        made = deployments(api.api_url)
        assert made["lane/ssh"] == ("ssh", False)
        assert made["rental/lambda"] == ("local", False)
        assert not {"nightly/nightly", "janitor/lambda-sweep", "lane/aws-batch"} & made.keys()
        settings = {name: value for name, value in os.environ.items() if name.startswith("PREFECT_")}

        os.environ[KEY] = "secret"
        sessions.deploy(True, settings)
        made = deployments(api.api_url)
        assert made["janitor/lambda-sweep"] == made["nightly/nightly"] == ("local", False)

        sessions.deploy(False, settings)
        made = deployments(api.api_url)
        assert made["janitor/lambda-sweep"][1] and made["nightly/nightly"][1]

        del os.environ[KEY]
        sessions.deploy(True, settings)
        made = deployments(api.api_url)
        assert (made["janitor/lambda-sweep"][1], made["nightly/nightly"][1]) == (True, False)
    assert said == ["starting a Prefect server and workers"]
    assert stacks.running_api(tmp_path / "state") is None
