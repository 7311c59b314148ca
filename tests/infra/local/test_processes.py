import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.local import processes
from infra.local.processes import Service
from infra.local.supervisor import MARK, ROLE
from tests.infra.local.stack_probe import until


@pytest.fixture
def services(tmp_path: Path) -> Iterator[list[Service]]:
    made: list[Service] = []
    yield made
    for service in made:
        service.stop()


def run(services: list[Service], folder: Path, code: str) -> Service:
    environment = {MARK: str(folder), ROLE: "worker"}
    service = Service("thing", [sys.executable, "-uc", code], environment, folder / "thing.log", folder)
    services.append(service)
    service.start()
    return service


def test_a_service_runs_until_it_is_stopped(services: list[Service], tmp_path: Path):
    service = run(services, tmp_path, "import time; print('hello'); time.sleep(60)")
    assert until(lambda: "hello" in service.last_words(), 10)
    assert service.alive()
    service.stop()
    assert not service.alive()
    service.stop()


@pytest.mark.parametrize(
    ("code", "ending"),
    [("exit(3)", "exit status 3"), ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL")],
)
def test_the_exit_of_a_service_is_described(services: list[Service], tmp_path: Path, code: str, ending: str):
    service = run(services, tmp_path, code)
    assert until(lambda: not service.alive(), 10)
    assert service.ending() == ending


def test_a_service_can_be_restarted_and_appends_to_its_log(services: list[Service], tmp_path: Path):
    service = run(services, tmp_path, "print('once')")
    assert until(lambda: not service.alive(), 10)
    service.start()
    assert until(lambda: not service.alive(), 10)
    assert service.last_words() == "once\nonce"


def test_a_log_that_has_grown_is_put_aside(
    services: list[Service], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(processes, "LOG_BYTES", 10)
    (tmp_path / "thing.log").write_text("much of the past\n")
    service = run(services, tmp_path, "print('new')")
    assert until(lambda: not service.alive(), 10)
    assert service.last_words() == "new"
    assert (tmp_path / "thing.log.1").read_text() == "much of the past\n"


def test_nothing_has_been_said_yet(tmp_path: Path):
    service = Service("thing", ["true"], {MARK: str(tmp_path)}, tmp_path / "thing.log", tmp_path)
    assert service.last_words() == ""
    assert not service.alive()
    assert service.ending() == "it did not run"
