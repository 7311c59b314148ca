import inspect

import pytest
from prefect import flow
from prefect_aws.decorators import ecs

from infra.workers.batch.decorators import aws_batch
from infra.workers.batch.worker import AwsBatchWorker
from infra.workers.ssh.decorators import ssh
from infra.workers.ssh.worker import SshWorker

OURS = pytest.mark.parametrize(("decorator", "worker"), [(aws_batch, AwsBatchWorker), (ssh, SshWorker)])


@flow
def add(a: int, b: int) -> int:
    return a + b


@OURS
def test_a_decorator_accepts_the_arguments_of_prefects_decorators(decorator, worker):
    def parameters(function):
        found = inspect.signature(function).parameters.values()
        return [(each.name, each.kind, each.default) for each in found]

    assert parameters(decorator) == parameters(ecs)


@OURS
def test_a_decorator_binds_a_flow_to_its_worker(decorator, worker, tmp_path):
    bound = decorator(
        "a-pool",
        ["*.yaml"],
        {"upload": ["python3"], "execution": ["python"]},
        include_files_base_dir=tmp_path,
        image="i:1",
    )(add)
    assert (bound.work_pool, bound.worker_cls, bound.job_variables) == ("a-pool", worker, {"image": "i:1"})
    assert bound.launcher == {"upload": ["python3"], "execution": ["python"]}
    assert (bound.include_files, bound.include_files_base_dir) == (["*.yaml"], str(tmp_path))
    assert (bound.name, bound.fn) == (add.name, add.fn)


@OURS
@pytest.mark.parametrize("pattern", [" ", 3])
def test_a_pattern_that_names_no_file_is_refused_at_once(decorator, worker, pattern):
    with pytest.raises(ValueError, match="include_files has"):
        decorator("a-pool", ["*.yaml", pattern])
