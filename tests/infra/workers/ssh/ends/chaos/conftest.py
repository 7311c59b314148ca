import pytest

from tests.infra.workers.ssh.ends.lanes import KINDS


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param
