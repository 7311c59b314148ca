import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.emulators.lambda_cloud import smoke, smoke_cases
from tests.emulators.lambda_cloud.control import Control
from tests.emulators.lambda_cloud.quick import nothing_left
from tests.emulators.lambda_cloud.reasons import BEHAVIOUR
from tests.emulators.lambda_cloud.server import lambda_cloud
from tests.emulators.lambda_cloud.ssh_boxes import SshBoxes

ROOT = Path(__file__).parents[3]
FREE = {name for name, belief in BEHAVIOUR.items() if not belief.paid}


@pytest.fixture
def cloud(request):
    with lambda_cloud(Control(boot_s=0.1), getattr(request, "param", None)) as cloud:
        yield cloud
        assert nothing_left(cloud)


@pytest.fixture
def go(cloud, monkeypatch, tmp_path):
    monkeypatch.setattr(smoke_cases, "PACE_S", 0)
    monkeypatch.setenv("LAMBDA_API_KEY", cloud.control.key)
    monkeypatch.setenv("LAMBDA_API_URL", cloud.url)
    monkeypatch.setenv("LAMBDA_RENTAL_API_FACTOR", "0.01")
    handler = signal.getsignal(signal.SIGTERM)
    out = tmp_path / "smoke.json"

    def go(*words):
        code = smoke.main(["--out", str(out), *words])
        return code, json.loads(out.read_text()) if out.exists() else None

    yield go
    signal.signal(signal.SIGTERM, handler)


def test_the_lambda_smoke_test_rents_nothing_without_yes(cloud, go, capsys):
    assert go("--max-usd", "0.5") == (2, None)
    assert capsys.readouterr().err == (
        "error: this rents gpu_1x_a10 at 1.29 USD an hour, for at most 23 minutes and 0.49 USD, and gives it back: "
        "say --yes to do it\n"
    )
    assert cloud.account.launched == []


def test_an_unknown_type_is_one_sentence(go, capsys):
    assert go("--instance", "gpu_1x_a11")[0] == 2
    assert "instance type 'gpu_1x_a11' is unknown to Lambda" in capsys.readouterr().err


@pytest.mark.parametrize("limit", [("--max-minutes", "0.05"), ("--max-usd", "0")])
def test_the_lambda_smoke_test_stops_at_its_limits_and_returns_every_instance(cloud, go, capsys, limit):
    code, found = go("--yes", *limit)
    assert code == 1 and "used up" in found["stopped"]
    assert "stopped early: " in capsys.readouterr().out
    assert nothing_left(cloud)


def test_the_free_answers_of_lambda_match_the_emulator(cloud, go, capsys):
    code, found = go("--yes", "--max-minutes", "0.05")
    assert code == 1 and found["answers"].keys() >= FREE
    text = capsys.readouterr().out
    assert not any(f"{name}: " in text for name in FREE), text
    assert "host_key: not seen; believed: " in text


def test_ctrl_c_gives_the_box_back(cloud, go, tmp_path):
    words = [
        sys.executable,
        "-m",
        "tests.emulators.lambda_cloud.smoke",
        "--yes",
        "--out",
        str(tmp_path / "x"),
    ]
    with subprocess.Popen(words, cwd=ROOT, env=os.environ, stdout=subprocess.DEVNULL) as script:
        deadline = time.monotonic() + 120
        while not cloud.account.running():
            assert time.monotonic() < deadline and script.poll() is None
            time.sleep(0.05)
        script.send_signal(signal.SIGTERM)
        assert script.wait(60) == 130
    assert nothing_left(cloud)


@pytest.mark.parametrize("cloud", [SshBoxes()], indirect=True)
def test_a_box_with_a_real_sshd_is_looked_at_and_returned(cloud, go, capsys):
    code, found = go("--yes")
    text = capsys.readouterr().out
    assert found["stopped"] is None, text
    assert {name for name in BEHAVIOUR if f"\n{name}: " in text} <= {"gpus", "docker"}, (
        "it has no GPU and no sudo"
    )
    assert found["answers"]["host_key"] == "ours alone" and found["answers"]["tunnel"] is True
    assert nothing_left(cloud) and code == 1
