import os

from gridbench.run import session as sessions
from infra.local import stack as stacks
from infra.local.access import api_client
from tests.gridbench.run.session_deployments import KEY, deployments


def test_a_session_for_boxes_has_their_deployments_and_keeps_schedules_still(
    monkeypatch, tmp_path, environment
):
    monkeypatch.setattr(sessions, "STATE", tmp_path / "state")
    monkeypatch.delenv(KEY, raising=False)
    said = []
    with sessions.session(said.append, tmp_path / "results", pools=("local", "rental", "ssh")) as api:
        client = api_client(tmp_path / "state", api.api_url)
        made = deployments(client)
        assert made["lane/ssh"] == ("ssh", False)
        assert made["rental/lambda"] == ("rental", False)
        assert not {"nightly/nightly", "janitor/lambda-sweep", "lane/aws-batch"} & made.keys()
        settings = {name: value for name, value in os.environ.items() if name.startswith("PREFECT_")}

        os.environ[KEY] = "secret"
        sessions.deploy(True, settings, "local", "rental")
        made = deployments(client)
        assert made["janitor/lambda-sweep"] == ("rental", False)
        assert made["nightly/nightly"] == ("local", False)

        sessions.deploy(False, settings, "local", "rental")
        made = deployments(client)
        assert made["janitor/lambda-sweep"][1] and made["nightly/nightly"][1]

        del os.environ[KEY]
        sessions.deploy(True, settings, "local", "rental")
        made = deployments(client)
        assert (made["janitor/lambda-sweep"][1], made["nightly/nightly"][1]) == (True, False)
    assert len(said) == 1 and "workers" in said[0]
    assert stacks.running_api(tmp_path / "state") is None
