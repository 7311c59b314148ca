from types import SimpleNamespace

import pytest
from prefect.exceptions import ObjectNotFound

from tasks import start
from tasks.errors import GridbenchError
from tasks.planning.hardware import load_hardware


class Server:
    """A Prefect server with these variables, and a form of the lanes' pool if given."""

    def __init__(self, form=None, **known):
        self.form, self.known = form, known

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc_info):
        return None

    async def read_variable_by_name(self, name):
        return SimpleNamespace(value=self.known[name]) if name in self.known else None

    async def read_deployment_by_name(self, name):
        if self.form is None:
            raise ObjectNotFound(None)
        return SimpleNamespace(work_pool_name=name.removeprefix("lane/"))

    async def read_work_pool(self, name):
        return SimpleNamespace(base_job_template={"variables": self.form})


async def test_a_variable_that_is_missing_or_empty_is_named(monkeypatch):
    machine = load_hardware("lambda-1x-a10")
    assert start.named_in(machine) == [("image", "gridbench_image_cuda12")]
    for server in (Server(), Server(gridbench_image_cuda12="")):
        monkeypatch.setattr(start, "get_client", lambda server=server: server)
        with pytest.raises(
            GridbenchError, match=r"lambda-1x-a10: job_variables\.image is the Prefect variable"
        ):
            await start.check_job_variables([machine])
    monkeypatch.setattr(start, "get_client", lambda: Server(gridbench_image_cuda12="docker.io/a/b"))
    await start.check_job_variables([machine])


async def test_machines_without_job_variables_need_no_api_call(monkeypatch):
    monkeypatch.setattr(start, "get_client", lambda: pytest.fail("asked"))
    await start.check_job_variables([load_hardware("local-cpu")])


async def test_a_job_variable_that_the_pool_lacks_is_named_before_anything_starts(monkeypatch):
    form = {"type": "object", "properties": {"memory_mib": {"type": "integer", "maximum": 10}}}
    monkeypatch.setattr(start, "get_client", lambda: Server(form))
    machine = load_hardware("gke-l4")
    for variables, words in (
        ({"memory_mb": 5}, "memory_mb.*did you mean memory_mib"),
        ({"memory_mib": 99}, "memory_mib is 99.*maximum"),
    ):
        with pytest.raises(GridbenchError, match=words):
            await start.check_job_variables([machine.model_copy(update={"job_variables": variables})])
    await start.check_job_variables([machine.model_copy(update={"job_variables": {"memory_mib": 5}})])
