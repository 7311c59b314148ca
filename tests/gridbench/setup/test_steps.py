from datetime import UTC, datetime

import boto3
import pytest
from botocore.stub import Stubber

from gridbench.machines.cloud import Cloud
from gridbench.setup import aws as aws_setup
from gridbench.setup import gke as gke_setup
from gridbench.setup import note as notes
from gridbench.setup import objects, steps
from gridbench.setup.image import flavours_for, forget_elsewhere, published_images
from gridbench.setup.note import CloudNote, read_note
from infra.aws.account import Account
from infra.gke.settings import ClusterOptions
from infra.images.errors import ImageError
from infra.local.ports import free_port
from tasks.errors import GridbenchError

AWS = Cloud("aws", "AWS")
HERE = "region us-east-1 of account 123456789012"


@pytest.fixture(autouse=True)
def nobody_is_logged_in(monkeypatch, tmp_path):
    monkeypatch.setenv("PREFECT_PROFILES_PATH", str(tmp_path / "profiles.toml"))
    monkeypatch.setattr(notes, "STATE", tmp_path / "state")


@pytest.fixture
def silent_api(monkeypatch):
    """An API that never answers."""
    url = f"http://127.0.0.1:{free_port()}/api"
    monkeypatch.setenv("PREFECT_API_URL", url)
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "me:secret")
    monkeypatch.setenv("GRIDBENCH_LOOPBACK_API", "true")
    return url


def a_note(cloud="aws", api_url="https://prefect.example/api", **made):
    return CloudNote(
        cloud=cloud, project="gridbench", api_url=api_url, pool=f"{cloud}-batch", kind="x", **made
    )


def test_without_an_api_nothing_begins():
    with pytest.raises(GridbenchError, match="machines of AWS need a Prefect API that they reach"):
        steps.begin(AWS, "gridbench", "aws-batch", "aws-batch")


def test_an_api_that_does_not_answer_is_refused_before_anything_is_made(silent_api):
    with pytest.raises(GridbenchError, match=f"{silent_api} does not answer"):
        steps.begin(AWS, "gridbench", "aws-batch", "aws-batch")
    assert read_note("aws") is None


def test_a_second_stack_is_refused_while_the_first_is_ready(silent_api):
    a_note(api_url=silent_api).write()
    with pytest.raises(GridbenchError, match=r"made ready as gridbench: first `gridbench down aws`"):
        steps.begin(AWS, "second", "aws-batch", "aws-batch")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ImageError("no engine"), GridbenchError("refused")])
def test_an_interrupted_up_lists_the_objects_that_exist(capsys, error):
    with pytest.raises(type(error)), steps.told_on_stop(AWS, lambda: "stack gridbench is there"):
        raise error
    told = " ".join(capsys.readouterr().out.split())
    assert told == (
        "stopped: stack gridbench is there; `gridbench up aws` goes on from here, `gridbench down aws` deletes it"
    )


def test_objects_left_at_an_unreachable_api_are_printed_and_noted(capsys, silent_api):
    a_note(api_url=silent_api, work_pools=["aws-batch"], deployments=["lane/aws-batch"]).write()
    assert steps.end(AWS, "gridbench", HERE) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert told.startswith(f"left at {silent_api}: aws-batch, lane/aws-batch") and "again" in told
    assert read_note("aws").work_pools == ["aws-batch"]


def test_where_nothing_was_made_yet_no_api_is_needed():
    a_note(place=HERE).write()
    assert steps.end(AWS, "gridbench", HERE) == 0 and read_note("aws") is None


def test_the_end_of_another_stack_leaves_the_note():
    a_note(work_pools=["aws-batch"]).write()
    assert steps.end(AWS, "gridbench-two", HERE) == 0 and read_note("aws")


def test_down_in_another_region_than_the_setup_is_reported(capsys):
    a_note(work_pools=["aws-batch"], place="region eu-west-1 of account 123456789012").write()
    assert steps.end(AWS, "gridbench", HERE) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert told.startswith("but aws was set up in region eu-west-1 of account 123456789012")
    assert read_note("aws").work_pools == ["aws-batch"]


@pytest.mark.parametrize(("searched", "code"), [("project mine", 0), ("zone b of project mine", 1)])
def test_a_cluster_that_is_in_no_zone_is_gone(silent_api, searched, code):
    a_note("gke", silent_api, place="zone a of project mine").write()
    assert steps.end(Cloud("gke", "GKE"), "gridbench", searched) == code
    assert (read_note("gke") is None) == (code == 0)


def test_up_in_another_place_is_refused():
    note = a_note()
    steps.settle(AWS, note, HERE)
    steps.settle(AWS, note, HERE)
    with pytest.raises(GridbenchError, match=f"made ready in {HERE}, and this is region eu-west-1"):
        steps.settle(AWS, note, "region eu-west-1 of account 123456789012")


@pytest.mark.parametrize(
    ("status", "stays"),
    [("REVIEW_IN_PROGRESS", False), ("DELETE_IN_PROGRESS", False), ("CREATE_IN_PROGRESS", True)],
)
def test_after_ctrl_c_down_looks_where_a_stack_comes(status, stays):
    keys = {"region_name": "us-east-1", "aws_access_key_id": "x", "aws_secret_access_key": "x"}
    cfn = boto3.client("cloudformation", **keys)
    account = Account({"cloudformation": cfn}.__getitem__, "eu-west-1", "123456789012")
    row = {"StackName": "gridbench", "StackId": "1", "CreationTime": datetime.now(UTC), "StackStatus": status}
    note = a_note(environment={aws_setup.REGION: "eu-west-1"})
    with Stubber(cfn) as answers, pytest.raises(KeyboardInterrupt), aws_setup._noted(note, account):
        answers.add_response("describe_stacks", {"Stacks": [row]})
        raise KeyboardInterrupt
    assert aws_setup.noted_region("gridbench") == ("eu-west-1" if stays else None)
    assert aws_setup.noted_region("second") is None


def test_an_image_of_a_stack_that_is_gone_is_built_again():
    note = a_note(images={"cpu": "host/lane@sha256:1"}, commits={"cpu": "0123"})
    forget_elsewhere(note, "host/lane")
    assert note.commits == {"cpu": "0123"}
    forget_elsewhere(note, "")
    assert note.commits == {}


def test_an_image_that_no_machine_needs_is_refused():
    with pytest.raises(GridbenchError, match="--image cuda12=… is for none of these machines: they need cpu"):
        steps.image_step(["cpu"], {"cuda12": "host/lane:1", "cpu": "host/lane:2"}, a_note(), "its repository")


@pytest.mark.parametrize(
    "url", ["https://host:port/api", "https://x..y/api", "https://…/api", "https://[::1"]
)
def test_an_invalid_address_is_one_sentence(monkeypatch, url):
    monkeypatch.setenv("PREFECT_API_URL", url)
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "me:very-secret")
    with pytest.raises(GridbenchError, match=r"does not answer|make no sense") as refused:
        steps.begin(AWS, "gridbench", "aws-batch", "aws-batch")
    assert "very-secret" not in str(refused.value) and "\n" not in str(refused.value)


def test_objects_that_two_clouds_share_are_deleted_with_the_last_cloud(monkeypatch):
    first = a_note(
        work_pools=["aws-batch", "local"],
        deployments=["bench/quick", "lane/local", "lane/aws-batch"],
        variables=["gridbench_image_cuda12"],
    ).write()
    a_note("gke").write()
    objects._leave_to_others(first)
    heir = read_note("gke")
    assert (first.work_pools, first.deployments, first.variables) == (["aws-batch"], ["lane/aws-batch"], [])
    assert (heir.work_pools, heir.deployments) == (["local"], ["bench/quick", "lane/local"])
    assert heir.variables == ["gridbench_image_cuda12"]


def test_only_the_deployments_of_a_cloud_and_no_schedule():
    names = [objects.full_name(entry) for entry in objects.entries_of("gke")]
    assert names == ["bench/quick", "bench/full", "bench/script", "bench/command", "lane/local", "lane/gke"]
    assert not [entry for entry in objects.entries_of("gke") if "schedules" in entry]


def test_flavours_follow_from_the_machines():
    assert flavours_for([0, 1]) == ("cpu", "cuda13")
    assert flavours_for([8]) == ("cuda13",) and flavours_for([0]) == ("cpu",)


@pytest.mark.parametrize(
    "text", ["host/name@sha256:12", "cpu=", "cuda9=host/name", "cpu=a b", "cpu=-x", "cpu=host/name@sha256:12"]
)
def test_a_published_image_needs_a_flavour_and_a_valid_name(text):
    with pytest.raises((GridbenchError, ImageError)):
        published_images([text])
    for good in ("host/name:1", "localhost:5000/a/b-c@sha256:" + "0" * 64, "name"):
        assert published_images([f"cpu={good}"]) == {"cpu": good}


def test_up_ends_with_a_command_that_runs():
    instances = ["g6.2xlarge", "g6.xlarge", "c5.2xlarge", "m5.2xlarge"]
    ready = ": gridbench run quick --on aws-g6.xlarge --on aws-c5.2xlarge"
    assert aws_setup._next_command("gridbench", instances) == ready
    for project, names in (("gridbench", ["g6.2xlarge"]), ("second", instances)):
        assert "no file of deployments/hardware names" in aws_setup._next_command(project, names)


@pytest.mark.parametrize(
    ("accelerators", "spot", "command"),
    [
        (["nvidia-tesla-t4"], False, ": gridbench run quick --on gke-t4"),
        (["nvidia-tesla-t4", "nvidia-l4"], True, ": gridbench run quick --on gke-l4-spot --on gke-t4-spot"),
        (["nvidia-l4:2"], False, ", but no file of deployments/hardware is for one of these pools"),
    ],
)
def test_up_gke_ends_with_a_command_for_its_own_pools(accelerators, spot, command):
    options = ClusterOptions("gridbench", "us-central1-a", tuple(accelerators), spot)
    assert gke_setup._next_command(options).startswith(command)
