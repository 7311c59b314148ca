import json

import pytest

from tests.docs.shown import DOCS, block_of
from tests.emulators.own_server import AUTH
from tests.exit_codes import assert_measured
from tests.infra.aws.stacks import inventory

pytestmark = pytest.mark.timeout(1800)


SLOW = """
import pathlib, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
if sys.argv[1] == "build":
    (pathlib.Path.home() / "building").touch()
    time.sleep(600)
"""


def secrets_of(aws):
    return [row["Name"] for row in aws.client("secretsmanager").list_secrets()["SecretList"]]


def built(tmp_path):
    calls = [json.loads(line) for line in (tmp_path / "engine.log").read_text().splitlines()]
    return [call for call in calls if call[0] in ("build", "push")]


def test_three_commands_make_a_report_and_leave_nothing(newcomer, aws, prefect_server, tmp_path):
    before = inventory(aws)
    settings = f"PREFECT_API_URL={prefect_server.url} PREFECT_API_AUTH_STRING={AUTH}"
    assert newcomer(f"prefect config set {settings}")[0] == 0
    up, run, down = block_of(DOCS / "aws.md", "gridbench up aws")
    assert {up, run, down} <= {*block_of(DOCS.parent / "README.md", "prefect cloud login")}, (
        "the README's, too"
    )
    code, told = newcomer(up)
    assert code == 0, told
    assert_told_first(told)
    assert AUTH not in told and "very-secret" not in str(aws.control.batch_calls)
    assert secrets_of(aws) == ["gridbench-prefect-auth-string"]
    assert prefect_server.names("work_pools") == {"aws-batch", "local"}
    assert prefect_server.names("deployments") == {"quick", "full", "script", "command", "local", "aws-batch"}
    assert prefect_server.names("variables") == {"gridbench_image_cpu", "gridbench_image_cuda13"}
    code, told = newcomer(run)
    assert_measured(code, told)
    assert "report: " in told and list((tmp_path / "results").glob("*/report.html"))
    assert aws.control.calls["SubmitJob"] == 2
    assert not newcomer.processes(), "the workers ended with the run"
    code, told = newcomer(down)
    assert code == 0, told
    assert inventory(aws) | {"Buckets": 0} == before | {"Buckets": 0} and secrets_of(aws) == []
    for kind in ("work_pools", "deployments", "variables"):
        assert prefect_server.names(kind) == set(), kind


def assert_told_first(told):
    """Assert that each object's cost is printed before the first is made."""
    plan, _, rest = told.partition("working out the changes")
    for words in ("secret gridbench-prefect-auth-string: 0.40 USD a month", "stack gridbench: 0 USD an hour",
                  "0.10 USD a GB and month", "work pools aws-batch and local"):  # fmt: skip
        assert words in plan, words
    assert "CREATE_COMPLETE" in rest and "ready: gridbench run quick" in rest


def test_up_does_nothing_twice(newcomer, aws, prefect_server, tmp_path):
    settings = f"PREFECT_API_URL={prefect_server.url} PREFECT_API_AUTH_STRING={AUTH}"
    assert newcomer(f"prefect config set {settings}")[0] == 0
    up = "gridbench up aws --instances c5.2xlarge --image cpu=localhost/published:1"
    assert newcomer(up)[0] == 0
    made = inventory(aws)
    code, told = newcomer(up)
    assert code == 0 and "stack gridbench is up to date: nothing to change" in told, told
    assert inventory(aws) == made and len(secrets_of(aws)) == 1
    assert not (tmp_path / "engine.log").exists() or built(tmp_path) == [], "a published image is not built"


def test_ctrl_c_while_an_image_is_built_lists_the_resources_that_exist(newcomer, aws, prefect_server):
    settings = f"PREFECT_API_URL={prefect_server.url} PREFECT_API_AUTH_STRING={AUTH}"
    assert newcomer(f"prefect config set {settings}")[0] == 0
    newcomer.program("docker", SLOW)
    script = "set -m; gridbench up aws --instances c5.2xlarge & up=$!; "
    script += "while ! [ -e $HOME/building ]; do sleep 0.2; done; kill -INT -$up; wait $up; echo code $?"
    told = newcomer(f"{{ {script}; }} < <(yes y)")[1]
    assert (
        "stopped: stack gridbench is there, at 0 USD an hour; `gridbench up aws` goes on from here" in told
    ), told
    assert "code 130" in told and "Traceback" not in told, told
    assert prefect_server.names("work_pools") == set()
    assert newcomer("gridbench down aws")[0] == 0 and secrets_of(aws) == []


def test_ctrl_c_in_a_run_ends_all_paid_machines(newcomer, aws, prefect_server):
    settings = f"PREFECT_API_URL={prefect_server.url} PREFECT_API_AUTH_STRING={AUTH}"
    assert newcomer(f"prefect config set {settings}")[0] == 0
    assert newcomer("gridbench up aws --instances c5.2xlarge --image cpu=of.dkr.ecr.tests/image:1")[0] == 0
    script = "set -m; gridbench run quick --on aws-c5.2xlarge & run=$!; "
    script += "until grep -qs 'is RUNNING' $GRIDBENCH_STATE/clouds/aws/worker.log; do sleep 0.2; done; "
    script += "kill -INT -$run; wait $run; echo code $?"
    told = newcomer(script)[1]
    assert "code 130" in told and "Traceback" not in told, told
    listed = [aws.client("batch").list_jobs(jobQueue="gridbench-c5-2xlarge", jobStatus=status)["jobSummaryList"]
              for status in ("RUNNABLE", "STARTING", "RUNNING")]  # fmt: skip
    assert not any(listed) and not newcomer.processes()


def test_a_declined_gridbench_up_leaves_nothing_in_the_account(newcomer, aws, prefect_server, monkeypatch):
    before = inventory(aws)
    settings = f"PREFECT_API_URL={prefect_server.url} PREFECT_API_AUTH_STRING={AUTH}"
    assert newcomer(f"prefect config set {settings}")[0] == 0
    code, told = newcomer("yes n | gridbench up aws --instances c5.2xlarge --image cpu=localhost/published:1")
    assert code == 2 and "nothing was changed" in told, told
    assert inventory(aws) == before and secrets_of(aws) == []
    assert prefect_server.names("work_pools") == set()
