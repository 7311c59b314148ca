from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import yaml

from gridbench import main
from gridbench.machines import stacks
from gridbench.run import command
from gridbench.run import session as sessions
from gridbench.run.reach import check_reach
from infra.lambda_cloud import janitor
from infra.local.access import auth_file, auth_string
from infra.local.settings import service_environment
from infra.local.workers import PoolWorker
from tasks.errors import GridbenchError
from tasks.planning.planner import make_plan
from tasks.planning.rent_terms import RentTerms
from tasks.planning.request import RunRequest
from tasks.store.address import ResultsAddress
from tasks.store.store import Store
from tests.emulators.lambda_cloud.control import Control
from tests.emulators.lambda_cloud.quick import PACE
from tests.emulators.lambda_cloud.server import lambda_cloud
from tests.gridbench.run.session_deployments import KEY


@pytest.fixture
def plan():
    return make_plan(RunRequest(suite="quick", hardware=["local-cpu", "local-cpu-1"], repeats=1))


def moved(plan, pool, rent=None):
    """Return the plan with its last machine in another pool."""
    there, last = plan.hardware[:-1], plan.hardware[-1]
    elsewhere = last.model_copy(update={"name": "elsewhere", "pool": pool, "rent": rent})
    return plan.model_copy(update={"hardware": (*there, elsewhere)})


RENT = RentTerms(provider="lambda", instances=("gpu_1x_a10",))


def test_only_a_plan_with_boxes_behind_ssh_needs_their_worker(plan):
    assert sessions.pools_of(plan.hardware) == ("local",)
    assert sessions.pools_of(moved(plan, "ssh").hardware) == ("local", "ssh")
    assert sessions.pools_of(moved(plan, "aws-batch").hardware) == ("local",)
    assert sessions.pools_of(moved(plan, "ssh", RENT).hardware) == ("local", "rental", "ssh")


@pytest.mark.parametrize(("key", "pools"), [("", ("local", "ssh")), ("secret", ("local", "rental", "ssh"))])
def test_a_stack_that_is_kept_rents_where_it_has_a_key(monkeypatch, key, pools):
    monkeypatch.setenv(KEY, key)
    assert sessions.pools_of_a_stack() == pools


@pytest.mark.parametrize(
    ("role", "has"), [("server", []), ("local", []), ("rental", [KEY]), ("ssh", ["SSH_AUTH_SOCK"])]
)
def test_one_worker_alone_has_the_key_and_one_the_agent(monkeypatch, tmp_path, role, has):
    for name in sessions.PRIVATE:
        monkeypatch.setenv(name, "secret")
    if role == "server":
        environment = service_environment(tmp_path, "http://a/api", role, sessions.PRIVATE)
    else:
        kind = sessions.POOLS[role]
        worker = PoolWorker(role, kind, tmp_path, "http://a/api", sessions.PRIVATE)
        environment = worker.service.environment
    assert [name for name in sessions.PRIVATE if name in environment] == has


def test_how_a_person_logs_in_is_reported_and_the_password_is_not(tmp_path):
    secret = auth_string(tmp_path)
    file = auth_file(tmp_path)
    opened = sessions.Session("http://a/api", "http://a", lambda: None, file)
    assert "http://a" in opened.ui_text and str(file) in opened.ui_text
    assert opened.settings_text.endswith(f'PREFECT_API_AUTH_STRING="$(cat {file})"')
    assert secret not in opened.ui_text + opened.settings_text
    assert sessions.Session("http://a/api", "http://a", lambda: None).ui_text == "UI: http://a"


def test_flows_that_rent_are_deployed_to_the_rental_pool():
    known = yaml.safe_load((sessions.ROOT / "prefect.yaml").read_text())["deployments"]
    rents = {of["name"] for of in known if of["entrypoint"].startswith("flows/rental.py")}
    assert rents == {of["name"] for of in known if of["work_pool"]["name"] == "rental"} != set()


@pytest.mark.parametrize(
    ("pool", "rent", "environment", "refusal"),
    [
        ("local", None, {}, None),
        ("ssh", None, {}, None),
        ("ssh", RENT, {KEY: "secret"}, None),
        ("ssh", RENT, {}, "set LAMBDA_API_KEY to one from "),
        ("ssh", RENT, {KEY: "two words"}, "LAMBDA_API_KEY holds characters that no key has"),
        ("ssh", RENT, {"PREFECT_API_URL": "http://there/api"}, None),  # whose worker has the key
        ("aws-batch", None, {}, "machines of work pool aws-batch, such as elsewhere, need a Prefect API"),
        ("aws-batch", None, {"PREFECT_API_URL": "http://there/api"}, None),
    ],
)
def test_a_plan_that_this_machine_cannot_run_is_refused(
    monkeypatch, tmp_path, plan, pool, rent, environment, refusal
):
    monkeypatch.delenv(KEY, raising=False)
    monkeypatch.setenv("PREFECT_PROFILES_PATH", str(tmp_path / "profiles.toml"))  # no profile is logged in
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if refusal is None:
        with lambda_cloud(Control(key="secret")) as cloud:  # which is swept before anything is rented
            monkeypatch.setenv("LAMBDA_API_URL", cloud.url)
            monkeypatch.setattr(janitor, "HASTE", PACE)
            check_reach(moved(plan, pool, rent).hardware)
            assert bool(cloud.control.calls) == (KEY in environment)
        return
    with pytest.raises(GridbenchError, match=refusal):
        check_reach(moved(plan, pool, rent).hardware)


def test_a_resumed_run_is_checked_and_served_like_a_new_run(monkeypatch, tmp_path, plan):
    asked = []
    monkeypatch.setattr(
        command,
        "find",
        lambda results, name: SimpleNamespace(plan=moved(plan, "ssh"), records=lambda: ([], [])),
    )
    monkeypatch.setattr(command, "check_budget", lambda plan, budget_usd: None)
    monkeypatch.setattr(command, "check_reach", lambda hardware: asked.append("checked"))

    def session(say, results, pools):
        raise GridbenchError(f"with {pools}")

    monkeypatch.setattr(sessions, "session", session)
    with pytest.raises(GridbenchError, match=r"with \('local', 'ssh'\)"):
        command.resume("a-run", results=ResultsAddress(tmp_path))
    assert asked == ["checked"]


@pytest.mark.parametrize(("words", "says"), [((), "--trust-plan"), (("--trust-plan",), "went on")])
def test_a_stored_plan_with_a_foreign_command_starts_nothing(
    monkeypatch, capsys, tmp_path, plan, words, says
):
    command_of = plan.hardware[0].model_copy(update={"command": ("sh", "-c", f"touch {tmp_path}/pwned")})
    store = Store.create(tmp_path, plan.model_copy(update={"hardware": (command_of, *plan.hardware[1:])}))

    def session(say, results, pools):
        raise GridbenchError("went on")

    monkeypatch.setattr(sessions, "session", session)
    monkeypatch.setattr(
        "sys.argv", ["gridbench", "resume", store.plan.run, "--results", str(tmp_path), *words]
    )
    with pytest.raises(SystemExit) as left:
        main.main()
    assert left.value.code == 2 and says in " ".join(capsys.readouterr().err.split())


def test_deployments_are_distinguished_by_their_names_alone():
    known = yaml.safe_load((sessions.ROOT / "prefect.yaml").read_text())["deployments"]
    names = [of["name"] for of in known]
    assert len(set(names)) == len(names)
    assert {of["name"] for of in known if "schedules" in of} >= sessions.NEEDS.keys()
    for of in known:
        assert (sessions.ROOT / of["entrypoint"].partition(":")[0]).is_file()


def up_with(monkeypatch, results):
    """Return the environment that `gridbench up` sets."""
    started = []

    @contextmanager
    def session(say, folder, port, schedules, pools):
        started.append((folder, service_environment(folder, "http://a/api", "worker-local")))
        raise KeyboardInterrupt
        yield

    monkeypatch.setenv("GRIDBENCH_RESULTS", "another")
    monkeypatch.setattr(sessions, "session", session)
    with pytest.raises(KeyboardInterrupt):
        stacks.up(SimpleNamespace(invoked_subcommand=None), None, results)
    return started[0]


def test_the_results_folder_of_a_stack_holds_for_all_that_it_starts(monkeypatch, tmp_path):
    """Runs from the UI or a schedule name no folder."""
    monkeypatch.chdir(tmp_path)
    folder, environment = up_with(monkeypatch, ResultsAddress.parse("mine"))
    assert environment["GRIDBENCH_RESULTS"] == str(tmp_path / "mine") == str(folder.absolute())


def test_a_stack_takes_no_block_for_its_results(monkeypatch):
    with pytest.raises(GridbenchError, match="results=s3-bucket/gridbench is a block"):
        stacks.up(SimpleNamespace(invoked_subcommand=None), None, ResultsAddress.parse("s3-bucket/gridbench"))
