"""Variables that hardware files name are looked for on the server before a machine is paid for."""

from types import SimpleNamespace

import pytest

from tasks import start
from tasks.errors import GridbenchError
from tasks.planning.hardware import load_hardware


class Server:
    """A Prefect server with these variables."""

    def __init__(self, **known):
        self.known = known

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc_info):
        return None

    async def read_variable_by_name(self, name):
        return SimpleNamespace(value=self.known[name]) if name in self.known else None


async def test_a_variable_that_is_missing_or_empty_is_named(monkeypatch):
    machine = load_hardware("lambda-1x-a10")
    assert start.named_in(machine) == [("image", "gridbench_image_cuda12")]
    for server in (Server(), Server(gridbench_image_cuda12="")):
        monkeypatch.setattr(start, "get_client", lambda server=server: server)
        with pytest.raises(
            GridbenchError, match=r"lambda-1x-a10: job_variables\.image is the Prefect variable"
        ):
            await start.check_variables([machine])
    monkeypatch.setattr(start, "get_client", lambda: Server(gridbench_image_cuda12="docker.io/a/b"))
    await start.check_variables([machine])


async def test_without_variables_nobody_is_asked(monkeypatch):
    monkeypatch.setattr(start, "get_client", lambda: pytest.fail("asked"))
    await start.check_variables([load_hardware("local-cpu")])
