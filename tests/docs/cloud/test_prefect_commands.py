import json
import re

import pytest

from gridbench.run.session import deployment_entries
from infra.workers.batch.worker import AwsBatchWorker
from tests.docs.shown import DOCS, ROOT, commands_of
from tests.emulators.newcomer import Shell, copy_of_checkout
from tests.emulators.own_server import AUTH, PrefectServer

OURS = re.compile(
    r"prefect (--no-prompt )?(work-pool create|global-concurrency-limit create|deploy|variable set|config set) |gridbench pool |export PREFECT_API_URL"
)
# Objects that each page leaves on the server, the flow's name before its deployment's.
MADE = {
    "aws.md": {"quick", "full", "local", "aws-batch"},
    "gke.md": {"gke", "kubernetes"},
    "lambda.md": {"quick", "full", "local", "ssh", "lambda", "lambda-sweep"},
    "scale.md": {entry["name"] for entry in deployment_entries()},
    "ssh.md": {"quick", "full", "local", "ssh"},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    made = PrefectServer(tmp_path_factory.mktemp("server"))
    try:
        yield made.wait()
    finally:
        made.stop()


@pytest.fixture
def checkout(tmp_path):
    folder = copy_of_checkout(tmp_path / "checkout")
    template = AwsBatchWorker.get_default_base_job_template()
    (folder / "aws-pool.json").write_text(
        json.dumps(template)
    )  # as `gridbench up aws --stack-only` writes it
    return folder


@pytest.mark.parametrize("name", MADE)
def test_the_commands_of_a_page_make_its_pools_and_deployments(name, server, checkout, tmp_path):
    server.empty()
    shell = Shell(tmp_path, {"PREFECT_API_AUTH_STRING": AUTH, "PREFECT_API_URL": server.url}, checkout)
    commands = [command for command in commands_of(DOCS / name) if OURS.match(command)]
    commands = [
        command for command in commands if "prefect.example" not in command and "https://HOST" not in command
    ]
    assert commands
    for command in commands:
        code, told = shell(command, timeout=300)
        assert code == 0, f"{name}: {command}\n{told}"
    assert server.names("deployments") == MADE[name]


def test_no_page_and_no_message_wants_every_deployment():
    """That needs the pools of every cloud, and starts schedules."""
    texts = [
        *DOCS.glob("*.md"),
        ROOT / "README.md",
        *ROOT.glob("gridbench/**/*.py"),
        *ROOT.glob("tasks/**/*.py"),
    ]
    assert [
        path.name
        for path in texts
        if re.search(r"`?prefect --no-prompt deploy --all`? again|run `prefect[^`]*--all`", path.read_text())
    ] == []
