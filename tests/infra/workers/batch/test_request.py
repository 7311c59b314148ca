import json
import uuid

import botocore.session
import pytest
from botocore.validate import ParamValidator
from prefect.client.schemas.objects import FlowRun
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_KEY, PREFECT_API_URL, temporary_settings

from infra.workers.base.job_configuration import JobRefused
from infra.workers.batch.request import PAYLOAD_BYTES, job_definition, job_name, refuse_too_large, submission
from infra.workers.batch.worker import AwsBatchJobConfiguration

RUN = FlowRun(id=uuid.UUID(int=7), flow_id=uuid.UUID(int=8), name="quick-otter")
SECRET = "arn:aws:secretsmanager:us-east-1:123456789012:secret:prefect-AbCdEf"
GPU = {
    "image": "registry/bench@sha256:0",
    "job_queue": "g5-xlarge",
    "vcpus": 4,
    "memory_mib": 14000,
    "gpus": 1,
    "shared_memory_mib": 4096,
    "timeout_s": 7200,
    "attempts": 3,
    "job_role_arn": "arn:aws:iam::123456789012:role/job",
    "execution_role_arn": "arn:aws:iam::123456789012:role/execution",
    "log_group": "/gridbench",
    "tags": {"owner": "ada"},
    "env": {"CELL": "c1"},
}


def prepared(**asked):
    configuration = AwsBatchJobConfiguration(**asked)
    configuration.prepare_for_flow_run(RUN, worker_name="w")
    return configuration


def valid(operation, request):
    model = botocore.session.get_session().get_service_model("batch").operation_model(operation)
    report = ParamValidator().validate(request, model.input_shape)
    assert not report.has_errors(), report.generate_report()


def test_the_definition_of_a_gpu_job_has_all_its_fields():
    request = job_definition(prepared(**GPU))
    valid("RegisterJobDefinition", request)
    assert request.pop("jobDefinitionName").startswith("prefect-")
    assert request == {
        "type": "container",
        "platformCapabilities": ["EC2"],
        "propagateTags": True,
        "containerProperties": {
            "image": "registry/bench@sha256:0",
            "resourceRequirements": [
                {"type": "VCPU", "value": "4"},
                {"type": "MEMORY", "value": "14000"},
                {"type": "GPU", "value": "1"},
            ],
            "linuxParameters": {"initProcessEnabled": True, "sharedMemorySize": 4096},
            "jobRoleArn": "arn:aws:iam::123456789012:role/job",
            "executionRoleArn": "arn:aws:iam::123456789012:role/execution",
            "logConfiguration": {
                "logDriver": "awslogs",
                "options": {"awslogs-group": "/gridbench", "awslogs-stream-prefix": "prefect"},
            },
        },
    }


def test_the_submission_of_a_job_has_all_its_fields():
    with temporary_settings({PREFECT_API_URL: "http://prefect.internal/api"}):
        request = submission(prepared(**GPU), job_name(RUN.id, 1, "quick otter!"), "definition:3", ())
    valid("SubmitJob", request)
    tags = request.pop("tags")
    environment = {item["name"]: item["value"] for item in request["containerOverrides"].pop("environment")}
    assert request == {
        "jobName": "00000000-0000-0000-0000-000000000007-1-quick-otter",
        "jobQueue": "g5-xlarge",
        "jobDefinition": "definition:3",
        "containerOverrides": {"command": ["python", "-m", "prefect.engine"]},
        "retryStrategy": {
            "attempts": 3,
            "evaluateOnExit": [
                {"onStatusReason": "Host EC2*", "action": "RETRY"},
                {"onStatusReason": "Your Spot Task was interrupted*", "action": "RETRY"},
                {"onReason": "*", "action": "EXIT"},
            ],
        },
        "timeout": {"attemptDurationSeconds": 7200},
        "propagateTags": True,
    }
    assert tags["owner"] == "ada" and tags["prefect.io/flow-run-id"] == str(RUN.id)
    assert environment["CELL"] == "c1" and environment["PREFECT__FLOW_RUN_ID"] == str(RUN.id)
    assert environment["PREFECT_API_URL"] == "http://prefect.internal/api"


def test_equal_content_is_one_definition_and_other_content_another():
    first = job_definition(prepared(**GPU))["jobDefinitionName"]
    same = job_definition(prepared(**GPU | {"env": {}, "timeout_s": 60, "attempts": 1, "tags": {}}))
    assert same["jobDefinitionName"] == first
    for change in (
        {"image": "registry/bench:2"},
        {"memory_mib": 15000},
        {"gpus": 0},
        {"log_group": "/other"},
    ):
        assert job_definition(prepared(**GPU | change))["jobDefinitionName"] != first


def test_an_existing_definition_keeps_fields_that_are_not_requested():
    bare = submission(prepared(job_definition="mine:4", job_queue="q"), "n", "mine:4", ())
    assert "resourceRequirements" not in bare["containerOverrides"]
    more = submission(prepared(job_definition="mine:4", job_queue="q", memory_mib=4096), "n", "mine:4", ())
    assert more["containerOverrides"]["resourceRequirements"] == [{"type": "MEMORY", "value": "4096"}]


@pytest.mark.parametrize(
    ("setting", "variable", "field"),
    [
        (PREFECT_API_KEY, "PREFECT_API_KEY", "prefect_api_key_secret_arn"),
        (PREFECT_API_AUTH_STRING, "PREFECT_API_AUTH_STRING", "prefect_api_auth_string_secret_arn"),
    ],
)
def test_a_secret_goes_by_its_arn_or_not_at_all(setting, variable, field):
    with temporary_settings({setting: "hush"}):
        without = prepared(**GPU)
        asked = prepared(**GPU, **{field: SECRET})
    with pytest.raises(JobRefused, match=f"{field} is not set: {variable} is never sent in plain text"):
        submission(without, "n", "d", ())
    definition = job_definition(asked)
    valid("RegisterJobDefinition", definition)
    assert definition["containerProperties"]["secrets"] == [{"name": variable, "valueFrom": SECRET}]
    assert "hush" not in json.dumps([definition, submission(asked, "n", "d", asked.secrets)])


def test_a_secret_of_the_existing_definition_will_do():
    own = prepared(job_definition="mine", job_queue="q", env={"PREFECT_API_KEY": "hush"})
    assert "hush" not in json.dumps(submission(own, "n", "mine", {"PREFECT_API_KEY"}))
    with pytest.raises(JobRefused, match="job_definition mine has no secret: PREFECT_API_KEY"):
        submission(own, "n", "mine", {"OTHER"})


def test_settings_of_the_workers_machine_stay_there():
    env = prepared(**GPU | {"env": {"PREFECT_HOME": "/tmp/mine"}}).env
    assert env["PREFECT_HOME"] == "/tmp/mine"
    assert not [name for name in prepared(**GPU).env if name.startswith(("PREFECT_SERVER_", "PREFECT_HOME"))]


def test_a_request_that_is_too_large_names_its_largest_variable():
    asked = prepared(**GPU | {"env": {"SMALL": "x", "PLAN": "y" * 7000}})
    with pytest.raises(JobRefused, match=r"7168: the largest is PLAN with 7000 characters"):
        submission(asked, "n", "d", ())
    tags = {f"tag-{number}": "v" * 256 for number in range(40)}
    request = submission(prepared(**GPU | {"tags": tags}), "n", "d", ())
    request["tags"] |= {"more": "t" * PAYLOAD_BYTES}
    with pytest.raises(JobRefused, match=r"the job's request \d+ bytes large, but AWS Batch allows 30720"):
        refuse_too_large(request)


@pytest.mark.parametrize("value", ["y", '"', "\\", "ü", "\n"])
def test_overrides_fit_the_limit_of_ecs_even_with_the_longest_names(value):
    """Batch adds variables with names of 128 characters, an array's index and size."""
    names = ("JOB_ID", "JOB_ATTEMPT", "JQ_NAME", "CE_NAME", "JOB_ARRAY_INDEX", "JOB_ARRAY_SIZE")
    added = [{"name": f"AWS_BATCH_{name}", "value": "n" * (128 if "NAME" in name else 40)} for name in names]
    taken = 0
    for length in range(0, 8000, 50):
        try:
            overrides = submission(prepared(**GPU | {"env": {"A": value * length}}), "n", "d", ())[
                "containerOverrides"
            ]
        except JobRefused:
            break
        overrides["environment"] += added
        whole = {"containerOverrides": [{"name": "default", **overrides}]}
        taken = len(json.dumps(whole, separators=(",", ":")))
        assert taken <= 8192
    assert taken > 6500  # the reserve is not much more than is needed


def test_names_and_tags_are_in_the_characters_that_aws_takes():
    name = job_name(RUN.id, 2, "Ünïcode / and a very long title " * 9)
    assert len(name) <= 128 and name.startswith(f"{RUN.id}-2-") and name.isascii()
    tags = submission(prepared(**GPU | {"tags": {"a,b": "c;d" * 200}}), "n", "d", ())["tags"]
    assert tags["a-b"] == ("c-d" * 200)[:256]
    with pytest.raises(JobRefused, match="allows 50"):
        submission(prepared(**GPU | {"tags": {f"t{i}": "x" for i in range(60)}}), "n", "d", ())
