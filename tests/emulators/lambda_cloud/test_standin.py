import httpx
import pytest

from tests.emulators.lambda_cloud.control import Fate
from tests.emulators.lambda_cloud.quick import A10, PUBLIC_KEY
from tests.emulators.lambda_cloud.server import lambda_cloud

LAUNCH = {"region_name": "us-east-1", "instance_type_name": A10, "ssh_key_names": ["k"]}


@pytest.fixture(scope="module")
def cloud():
    with lambda_cloud() as cloud:
        yield cloud


@pytest.fixture(scope="module")
def plain(cloud):
    headers = {"Authorization": f"Bearer {cloud.control.key}"}
    with httpx.Client(base_url=cloud.url, headers=headers) as plain:
        plain.post("/ssh-keys", json={"name": "k", "public_key": PUBLIC_KEY}).raise_for_status()
        yield plain


def without(name):
    return {key: value for key, value in LAUNCH.items() if key != name}


@pytest.mark.parametrize(
    "body",
    [
        [],
        without("region_name"),
        without("instance_type_name"),
        without("ssh_key_names"),
        LAUNCH | {"ssh_key_names": []},
        LAUNCH | {"ssh_key_names": ["k", "k"]},
        LAUNCH | {"ssh_key_names": "k"},
        LAUNCH | {"quantity": 1},
        LAUNCH | {"name": "x" * 65},
        LAUNCH | {"hostname": "-box"},
        LAUNCH | {"hostname": "box\n"},
        LAUNCH | {"tags": {"run": "1"}},
        LAUNCH | {"tags": [{"key": "run"}]},
        LAUNCH | {"tags": [{"key": "Run", "value": ""}]},
        LAUNCH | {"tags": [{"key": "r", "value": ""}]},
        LAUNCH | {"tags": [{"key": "r" * 56, "value": ""}]},
        LAUNCH | {"tags": [{"key": "run", "value": "x" * 129}]},
        LAUNCH | {"tags": [{"key": "run", "value": ""}] * 2},
        LAUNCH | {"user_data": "x" * 1_000_001},
        LAUNCH | {"user_data": "#cloud-config\n: ["},
    ],
)
def test_a_wrong_launch_is_refused(cloud, plain, body):
    answer = plain.post("/instance-operations/launch", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "global/invalid-parameters")
    assert cloud.account.launched == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("region_name", "moon-1"), ("instance_type_name", "gpu"), ("ssh_key_names", ["other"])],
)
def test_a_launch_of_an_unknown_type_is_not_found(plain, name, value):
    answer = plain.post("/instance-operations/launch", json=LAUNCH | {name: value})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "global/object-does-not-exist")


@pytest.mark.parametrize(
    "body",
    [
        {"name": "x"},
        {"name": "", "public_key": PUBLIC_KEY},
        {"name": "x" * 65, "public_key": PUBLIC_KEY},
        {"name": "x", "public_key": "ssh-ed25519 nonsense"},
        {"name": "x", "public_key": PUBLIC_KEY.replace("ssh-ed25519", "ssh-rsa")},
        {"name": "k", "public_key": PUBLIC_KEY},
    ],
)
def test_a_wrong_key_is_refused(cloud, plain, body):
    assert plain.post("/ssh-keys", json=body).status_code == 400
    assert cloud.account.key_names() == ["k"]


def test_a_body_that_is_not_json_is_refused(plain):
    assert plain.post("/instance-operations/launch", content="{}").status_code == 400
    header = {"Content-Type": "application/json"}
    assert plain.post("/instance-operations/launch", content="{", headers=header).status_code == 400


def test_other_paths_are_not_there(plain):
    assert plain.get("/instances/").status_code == 404
    assert plain.put("/instances").status_code == 405


@pytest.mark.parametrize("body", [{}, {"instance_ids": []}, {"instance_ids": "i"}, {"instance_ids": [1]}])
def test_a_wrong_termination_is_refused(plain, body):
    assert plain.post("/instance-operations/terminate", json=body).status_code == 400


class Remembered:
    def __init__(self):
        self.stopped = []

    def start(self, instance_id, request, public_key):
        return "10.1.2.3"

    def stop(self, instance_id):
        self.stopped.append(instance_id)


@pytest.mark.parametrize("fate", [None, Fate("preempted"), Fate("never_active"), Fate("no_ip")])
def test_the_end_of_the_stand_in_stops_every_machine(fate):
    machines = Remembered()
    with lambda_cloud(machines=machines) as cloud:
        cloud.control.fates.append(fate)
        cloud.control.terminating_s = 600
        with httpx.Client(base_url=cloud.url, auth=(cloud.control.key, "")) as plain:
            plain.post("/ssh-keys", json={"name": "k", "public_key": PUBLIC_KEY})
            plain.post("/instance-operations/launch", json=LAUNCH).raise_for_status()
        made = cloud.account.launched[0].id
    assert machines.stopped == [made]
