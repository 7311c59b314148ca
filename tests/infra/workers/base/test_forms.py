import pytest
from prefect.utilities.schema_tools.validation import validate

from infra.workers.batch.worker import AwsBatchWorker
from infra.workers.kubernetes.worker import KubernetesJobsWorker
from infra.workers.ssh.worker import SshWorker

WORKERS = (AwsBatchWorker, KubernetesJobsWorker, SshWorker)
HUGE = 99999999999999999999


def numbers(schema, models, path=""):
    """Yield the path and schema of every number of a form; Prefect checks blocks itself."""
    if isinstance(schema, dict):
        if "block_type_slug" in schema:
            return
        if schema.get("type") in ("integer", "number"):
            yield path, schema
        if "$ref" in schema:
            yield from numbers(models[schema["$ref"].rpartition("/")[2]], models, path)
        for key, value in schema.items():
            yield from numbers(value, models, f"{path}.{key}")
    elif isinstance(schema, list):
        for index, value in enumerate(schema):
            yield from numbers(value, models, f"{path}.{index}")


@pytest.mark.parametrize("worker", WORKERS)
def test_every_number_of_a_form_has_bounds(worker):
    form = worker.get_default_base_job_template()["variables"]
    schemas = dict(numbers(form["properties"], form.get("definitions", {})))
    assert len(schemas) >= 5
    for path, schema in schemas.items():
        assert 0 <= schema["minimum"] <= schema["maximum"] < 2**53, path


@pytest.mark.parametrize("worker", WORKERS)
def test_a_form_refuses_unknown_names_and_numbers_that_cannot_be_stored(worker):
    form = worker.get_default_base_job_template()["variables"]
    taken = {"memory_mib": 4096, "image": "ours:1", "labels": {"a": "b"}, "env": {"A": "1"}, "gpus": 1}
    assert validate(taken, form, ignore_required=True, allow_none_with_default=True) == []
    for wrong in ({"memory_mb": 300}, {"memory_mib": HUGE}, {"gpus": HUGE}, {"timeout_s": HUGE}):
        assert validate(wrong, form, ignore_required=True, allow_none_with_default=True), wrong
