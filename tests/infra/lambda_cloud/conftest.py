import pytest

from tests.emulators.lambda_cloud.quick import PUBLIC_KEY, client
from tests.emulators.lambda_cloud.server import lambda_cloud


@pytest.fixture
def cloud():
    with lambda_cloud() as cloud:
        yield cloud


@pytest.fixture
async def api(cloud):
    async with client(cloud) as api:
        yield api


@pytest.fixture
async def keyed_api(api):
    await api.add_ssh_key("key-1", PUBLIC_KEY)
    return api
