import shutil

import pytest

from infra.workers.base.environment import CREDENTIAL_NAME
from infra.workers.kubernetes.worker import KubernetesJobsWorker
from tasks.errors import GridbenchError
from tasks.planning.hardware import DEPLOYMENTS, hardware_names, load_hardware
from tasks.planning.job_variables import fault_in
from tasks.pool_form import mistake_in
from workloads.harness.records.secret_names import VARIABLE

HEAD = "title: t\npool: gke\ndevice: cpu\n"
PRICE = "price: {usd_per_hour: 1, purchase: spot, source: here, date: 2026-01-01}\n"
FORM = KubernetesJobsWorker.get_default_base_job_template()["variables"]
TOKEN = "hf_" + "abcdefghijklmnopqrstuvwxyzabcdefgh"


@pytest.fixture
def load(tmp_path):
    folder = shutil.copytree(DEPLOYMENTS, tmp_path / "deployments")

    def loaded(more):
        (folder / "hardware" / "mine.yaml").write_text(f"{HEAD}{PRICE}{more}\n")
        return load_hardware("mine", folder)

    return loaded


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("job_variables: {memory_mib: 99999999999999999999}", "job_variables.memory_mib has 20 digits"),
        ("job_variables: {a: [{b: -99999999999999999999}]}", "job_variables.a.0.b has 20 digits"),
        ("job_variables: {vcpus: .inf}", "job_variables.vcpus is inf"),
        ("job_variables: {env: {HF_TOKEN: abc}}", "job_variables.env.HF_TOKEN holds a secret"),
        ("job_variables: {env: {DB_PASSWORD: abc}}", "job_variables.env.DB_PASSWORD holds a secret"),
        ("job_variables: {env: {WANDB_API_KEY: abc}}", "job_variables.env.WANDB_API_KEY holds a secret"),
        (f"job_variables: {{command: 'sh -c {TOKEN}'}}", "job_variables.command holds a secret"),
        ("gpus: 99999999999999999999", "gpus is 99999999999999999999: "),
        ("threads: 99999999999999999999", "threads is 99999999999999999999: "),
        ("start_s: .inf", "start_s is inf: "),
        ("memory_gb: 1.0e+300", "memory_gb is 1e+300: "),
        ("start_within: 5", "the key 'start_within' is unknown; did you mean 'start_within_s'?"),
        ("rent: {provider: lambda, instances: [a], boots_s: 3}", "did you mean 'rent.boot_s'?"),
    ],
)
def test_a_hardware_file_with_a_value_that_must_not_be_stored_is_refused(load, more, words):
    with pytest.raises(GridbenchError) as caught:
        load(more)
    said = str(caught.value)
    assert "mine.yaml" in said and words in said and "\n" not in said
    assert TOKEN not in said and "abc" not in said.replace("job_variables", "")


def test_references_to_secrets_and_harmless_names_are_accepted(load):
    env = "{HF_TOKEN: '{{ prefect.blocks.secret.hf }}', TOKENIZERS_PARALLELISM: 'false', MAX_TOKENS: '7'}"
    machine = load(f"job_variables: {{env: {env}, prefect_api_key_secret: prefect/key, memory_mib: 300}}")
    assert fault_in(machine.job_variables) == ""


def test_a_name_that_the_form_lacks_is_refused_with_the_nearest():
    said = mistake_in({"memory_mb": 300}, FORM)
    assert "'memory_mb'" in said and "did you mean memory_mib?" in said


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"memory_mib": 2**62}, ["job_variables.memory_mib", str(2**62), "maximum"]),
        ({"gpus": "two"}, ["job_variables.gpus is 'two'", "integer"]),
        ({"env": {"A": 4}}, ["job_variables.env.A", "string"]),
        ({"tolerations": [{"kye": "a"}]}, ["job_variables.tolerations.0", "'kye'", "did you mean key?"]),
    ],
)
def test_a_value_that_the_form_refuses_is_one_sentence(variables, words):
    said = mistake_in(variables, FORM)
    assert all(word in said for word in words) and "\n" not in said, said


def test_a_reference_is_checked_by_the_worker_that_looks_it_up():
    assert mistake_in({"image": "{{ prefect.variables.a }}", "gpus": "{{ prefect.variables.b }}"}, FORM) == ""


@pytest.mark.parametrize("name", [name for name in hardware_names() if name.startswith("gke-")])
def test_our_own_machines_fit_the_form(name):
    assert mistake_in(load_hardware(name).job_variables, FORM) == ""


def test_planning_and_workers_know_secrets_by_the_same_names():
    assert VARIABLE.pattern == CREDENTIAL_NAME.pattern
