"""Each kind of lanes; `make test` installs no Slurm."""

import pytest

from tests.infra.workers.ssh.ends.lanes import CONTAINERS, PROCESSES, SLURM


@pytest.fixture(params=[CONTAINERS, PROCESSES, pytest.param(SLURM, marks=pytest.mark.chaos)])
def kind(request):
    return request.param
