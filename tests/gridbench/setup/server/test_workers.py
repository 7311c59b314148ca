import threading
import time

import psutil
import pytest

from gridbench.setup.prefect_api import PrefectApi
from gridbench.setup.workers import CloudWorker
from infra.local.ports import free_port
from infra.local.supervisor import MARK
from tasks.errors import GridbenchError


@pytest.fixture
def make(tmp_path):
    """Return a maker of workers that run a waiting program instead of Prefect."""
    api = PrefectApi(f"http://127.0.0.1:{free_port()}/api", auth_string="me:secret")
    told = []

    def make():
        worker = CloudWorker(
            "aws-batch", "aws-batch", tmp_path / "aws", api, {"AWS_PROFILE": "mine"}, told.append
        )
        worker._service.command = ["sleep", "600"]
        worker.told = told
        return worker

    return make


def processes(folder):
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == str(folder) and process.name() == "sleep":
                found.append(process)
        except psutil.Error:
            continue
    return found


def until(found, within_s=60):
    deadline = time.monotonic() + within_s
    while not (value := found()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return value


def test_a_worker_lives_as_long_as_the_run(make, tmp_path):
    folder = tmp_path / "aws"
    with make() as worker:
        (process,) = until(lambda: processes(folder))
        environment = process.environ()
        assert environment["PREFECT_API_AUTH_STRING"] == "me:secret" and environment["AWS_PROFILE"] == "mine"
        assert worker.check() is None
        assert "me:secret" not in " ".join(process.cmdline()) and "secret" not in worker.told[0]
    assert not processes(folder)


def test_a_worker_that_dies_is_started_again_and_given_up_at_last(make, tmp_path):
    folder = tmp_path / "aws"
    with make() as worker:
        for _ in range(2):
            until(lambda: processes(folder))[0].kill()
            sentence = until(worker.check)
            assert sentence.startswith("The worker of pool aws-batch had stopped (killed by SIGKILL)")
        until(lambda: processes(folder))[0].kill()
        with pytest.raises(GridbenchError, match="stops again and again"):
            until(worker.check)


def test_two_runs_share_a_worker_and_the_first_leaves_last(make, tmp_path):
    folder, first, second = tmp_path / "aws", make(), make()
    first.__enter__()
    until(lambda: processes(folder))
    with second:
        assert "of another run from here serves this one" in second.told[-1]
        assert len(processes(folder)) == 1
        leaving = threading.Thread(target=first.__exit__, args=(None, None, None))
        leaving.start()
        time.sleep(1)
        assert leaving.is_alive() and processes(folder), "it is still used"
        assert second.check() is None
    leaving.join(60)
    assert not leaving.is_alive() and not processes(folder)


def test_a_run_whose_neighbour_dies_takes_the_worker_over(make, tmp_path):
    folder, first, second = tmp_path / "aws", make(), make()
    first.__enter__()
    with second:
        until(lambda: processes(folder))
        first._service.stop()  # as the kernel does when its owner is killed
        first._locks.close()
        assert second.check().startswith("The run that had the worker of pool aws-batch is gone")
        until(lambda: processes(folder))
    assert not processes(folder)
