"""One server on Postgres, or two with Redis, with pools for `bench` and an SSH box."""

import shutil
from pathlib import Path

import pytest
import yaml

from tasks.planning.hardware import DEPLOYMENTS
from tests.emulators import postgres, redis_server
from tests.emulators.boxes import boxes
from tests.emulators.lane import with_workload
from tests.flows.own_server.server import OwnServer

HERE = Path(__file__).parents[1]


@pytest.fixture
def database():
    if (found := postgres.programs()) is None:
        pytest.skip(postgres.MISSING)
    with postgres.postgres(found) as made:
        yield made


@pytest.fixture(params=[1, 2], ids=["one server", "two servers"])
def redis(request):
    if request.param == 1:
        yield None
        return
    if (found := redis_server.program()) is None:
        pytest.skip(redis_server.MISSING)
    with redis_server.redis_server(found) as made:
        yield made


@pytest.fixture
def box():
    with boxes() as [made]:
        yield made
        assert made.containers() == []


@pytest.fixture
def server(tmp_path, database, redis, box, bench_image):
    """The server with deployments and pools; a test starts the workers."""
    machine = {
        "title": "A box behind SSH",
        "pool": "ssh",
        "device": "cpu",
        "threads": 1,
        "price": {"usd_per_hour": 0.5, "purchase": "assumption", "source": "a guess", "date": "2026-11-22"},
        "start_s": 20,
        "start_within_s": 400,
        "job_variables": {
            "hosts": [box.host],
            "image": with_workload(bench_image, HERE / "workloads" / "nap.py"),
            "pull": "never",
            "shared_memory_mib": 256,
            "least_free_mib": 1,
            "timeout_s": 1200,
        },
    }
    shutil.copytree(DEPLOYMENTS, tmp_path / "deployments")
    shutil.copytree(HERE / "deployments", tmp_path / "deployments", dirs_exist_ok=True)
    (tmp_path / "deployments" / "hardware" / "box.yaml").write_text(yaml.safe_dump(machine))
    made = OwnServer(
        tmp_path,
        database.url,
        redis,
        GRIDBENCH_DEPLOYMENTS=str(tmp_path / "deployments"),
        GRIDBENCH_WORKLOADS=str(HERE / "workloads"),
        GRIDBENCH_RESULTS=str(tmp_path / "results"),
    )
    try:
        made.start()
        made.prefect("work-pool", "create", "local", "--type", "process")
        made.prefect("work-pool", "create", "ssh", "--type", "ssh")
        made.prefect("--no-prompt", "deploy", "--name", "quick", "--name", "ssh")
        yield made
    finally:
        made.stop()
