import pytest
from pydantic import ValidationError

from infra.workers.base.job_configuration import JobRefused, one_sentence
from infra.workers.ssh.configuration import SshJobConfiguration
from infra.workers.ssh.slurm.submission import limit_minutes, submission

FOLDER = "/home/ada/.prefect-ssh/prefect-1"


def configuration(slurm=None, **fields):
    return SshJobConfiguration(
        hosts=[{"address": "login"}],
        container_command="none",
        scheduler="slurm",
        slurm=slurm or {},
        env={},
        labels={},
        **fields,
    )


def options(slurm=None, **fields):
    asked = configuration(slurm, **fields)
    return submission(asked, asked.slurm, "prefect-1", FOLDER)


def test_a_lane_has_a_limit_leaves_the_queue_by_itself_is_alone_and_runs_once():
    asked = options(timeout_s=600, wait_s=100)
    assert asked == (
        *("--parsable", "--job-name=prefect-1", "--no-requeue", "--nodes=1", "--ntasks=1"),
        *("--time=11", "--deadline=now+760seconds"),
        *(f"--chdir={FOLDER}", f"--output={FOLDER}/log", "--open-mode=append", "--input=/dev/null"),
        *("--export=NONE", "--mail-type=NONE", "--exclusive", "--mem=0"),
    )


def test_requested_resources_become_options_of_sbatch():
    named = {"partition": "gpu,gpu2", "account": "lab", "qos": "high", "constraint": "a100&nvlink"}
    asked = options(
        named | {"reservation": "friday", "gpu_type": "a100", "cpus": 8, "exclusive": False},
        gpus=2,
        memory_mib=4096,
    )
    assert {f"--{name}={value}" for name, value in named.items()} < set(asked)
    assert {"--reservation=friday", "--gres=gpu:a100:2", "--cpus-per-task=8", "--mem=4096M"} < set(asked)
    assert "--exclusive" not in asked


@pytest.mark.parametrize(("timeout_s", "minutes"), [(10, 2), (60, 2), (61, 3), (14400, 241)])
def test_slurms_limit_comes_after_the_lanes_own(timeout_s, minutes):
    assert limit_minutes(timeout_s) == minutes


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"slurm": {"partition": "gpu --wrap=id"}},
            "slurm.partition is 'gpu --wrap=id': string should match",
        ),
        ({"slurm": {"qos": "-high"}}, "slurm.qos is '-high'"),
        ({"slurm": {"cpus": 0}}, "slurm.cpus is 0: input should be greater than or equal to 1"),
        ({"slurm": {"partitions": "gpu"}}, "slurm.partitions is 'gpu': extra inputs are not permitted"),
        ({"scheduler": "pbs"}, "scheduler is 'pbs': input should be 'slurm'"),
        ({"scheduler": None, "slurm": {"qos": "high"}}, "slurm is set but scheduler is not"),
        (
            {"container_command": ["docker"], "image": "x"},
            "container_command is ['docker'] and scheduler is slurm",
        ),
    ],
)
def test_a_value_that_makes_no_sense_is_named(fields, sentence):
    base = {"hosts": [{"address": "login"}], "container_command": "none", "scheduler": "slurm", "env": {}}
    with pytest.raises(ValidationError) as refused:
        SshJobConfiguration(**base | {"labels": {}} | fields)
    assert sentence in one_sentence(refused.value)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"gpus": "all"}, "gpus is 'all': "),
        ({"slurm": {"gpu_type": "a100"}}, "slurm.gpu_type is a100, but gpus is 0"),
    ],
)
def test_gpu_requests_without_a_valid_count_are_refused(fields, sentence):
    with pytest.raises(JobRefused, match=sentence):
        options(**fields)
