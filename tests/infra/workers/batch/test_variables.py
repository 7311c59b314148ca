import pytest

from infra.workers.base.job_configuration import JobRefused
from infra.workers.batch.worker import AwsBatchJobConfiguration, AwsBatchVariables, AwsBatchWorker

ENOUGH = {"image": "i", "job_queue": "q"}
ROLE = "arn:aws:iam::123456789012:role/x"


async def configured(**values):
    template = AwsBatchWorker.get_default_base_job_template()
    return await AwsBatchJobConfiguration.from_template_and_values(template, values, client=object())


def test_every_field_of_the_form_has_a_title_and_a_description():
    for name, field in AwsBatchVariables.model_json_schema()["properties"].items():
        assert field.get("title") and field.get("description"), name


def test_the_form_and_the_configuration_have_the_same_fields():
    assert AwsBatchVariables.model_fields.keys() == AwsBatchJobConfiguration.model_fields.keys()


async def test_defaults_are_enough_with_an_image_and_a_queue():
    asked = await configured(**ENOUGH)
    assert (asked.attempts, asked.gpus, asked.timeout_s) == (1, 0, 14400)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"image": "i"}, "job_queue is not set: name the queue that takes the jobs."),
        ({"job_queue": "q"}, "image is not set: "),
        (ENOUGH | {"memory_mib": -5}, "memory_mib is -5: input should be greater than or equal to 4."),
        (ENOUGH | {"vcpus": 0}, "vcpus is 0: input should be greater than or equal to 1."),
        (ENOUGH | {"vcpus": 10**9}, "vcpus is 1000000000: input should be less than or equal to 10000."),
        (ENOUGH | {"vcpus": "many"}, "vcpus is 'many': input should be a valid integer"),
        (ENOUGH | {"gpus": -1}, "gpus is -1: input should be greater than or equal to 0."),
        (ENOUGH | {"timeout_s": 59}, "timeout_s is 59: input should be greater than or equal to 60."),
        (
            ENOUGH | {"timeout_s": 14_400_000},
            "timeout_s is 14400000: input should be less than or equal to 1209600.",
        ),
        (ENOUGH | {"attempts": 11}, "attempts is 11: input should be less than or equal to 10."),
        (ENOUGH | {"capacity_deadline_s": 0}, "capacity_deadline_s is 0: input should be greater"),
        (ENOUGH | {"region": "Virginia"}, "region is 'Virginia': string should match pattern"),
        (ENOUGH | {"job_role_arn": "admin"}, "job_role_arn is 'admin': string should match pattern"),
        (ENOUGH | {"tags": {"aws:x": "1"}}, "tags has 'aws:x': "),
        (ENOUGH | {"env": {"AWS_BATCH_JOB_ID": "1"}}, "env sets AWS_BATCH_JOB_ID: names that start with"),
        (ENOUGH | {"job_definition": "d"}, "image i can't be changed for the existing job_definition d"),
        (
            {"job_definition": "d", "job_queue": "q", "shared_memory_mib": 64},
            "shared_memory_mib 64 can't be changed for the existing job_definition d",
        ),
        (
            ENOUGH | {"prefect_api_key_secret_arn": "arn:aws:ssm:us-east-1:1:parameter/x"},
            "execution_role_arn is not set: ",
        ),
    ],
)
async def test_nonsense_is_refused_in_a_sentence(values, said):
    with pytest.raises(JobRefused) as refusal:
        await configured(**values)
    assert str(refusal.value).startswith(said) and "\n" not in str(refusal.value)


async def test_a_secret_with_a_role_is_fine():
    asked = await configured(**ENOUGH, prefect_api_key_secret_arn="arn:aws:x", execution_role_arn=ROLE)
    assert asked.secrets == {"PREFECT_API_KEY": "arn:aws:x"}
