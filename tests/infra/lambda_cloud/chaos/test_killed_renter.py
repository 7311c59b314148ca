import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infra.lambda_cloud.lease import lease_of
from infra.lambda_cloud.models import LambdaInstance

ROOT = Path(__file__).parents[4]
WITHIN_S = 120
RENTER = """
import asyncio, sys
from infra.lambda_cloud.api import LambdaApi, api_key, api_url
from infra.lambda_cloud.rent import rented
from tests.emulators.lambda_cloud.quick import PACE, lease, wish

async def answers(ip):
    return True

async def main():
    async with LambdaApi(api_key(), api_url(), PACE) as api:
        async with rented(api, wish(), lease(until_s=float(sys.argv[1])), print, answers):
            print("held", flush=True)
            await asyncio.sleep(1000)

asyncio.run(main())
"""


@pytest.fixture
def environment(cloud, tmp_path):
    named = {"LAMBDA_API_KEY": cloud.control.key, "LAMBDA_API_URL": cloud.url, "HOME": str(tmp_path)}
    folders = {"GRIDBENCH_RESULTS": str(tmp_path / "results"), "GRIDBENCH_STATE": str(tmp_path / "state")}
    nowhere = {"PREFECT_API_URL": "http://localhost:9/api"}  # what comes after the sweep is of no interest
    return os.environ | named | folders | nowhere


def killed_renter(environment, until_s):
    words = [sys.executable, "-c", RENTER, str(until_s)]
    with subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as renter:
        for line in renter.stdout:
            if line == "held\n":
                renter.send_signal(signal.SIGKILL)
    assert renter.returncode == -signal.SIGKILL


def deadline_of(instance):
    return lease_of(LambdaInstance.model_validate(instance.shown())).until.timestamp()


@pytest.mark.parametrize(
    "words",
    [
        ("lambda", "rented"),
        ("run", "loadtest", "--on", "lambda-1x-a10", "--budget-usd", "50"),
    ],
)
def test_the_next_command_ends_the_box_of_a_renter_that_was_killed(cloud, environment, words):
    killed_renter(environment, until_s=20)
    [box] = cloud.account.running()
    gridbench = str(Path(sys.executable).with_name("gridbench"))
    subprocess.run([gridbench, "lambda", "rented"], env=environment, check=True, capture_output=True)
    assert cloud.account.running() == [box], "nobody takes it away before its deadline"
    time.sleep(max(deadline_of(box) - time.time(), 0) + 0.1)
    with subprocess.Popen([gridbench, *words], env=environment, stderr=subprocess.PIPE) as command:
        try:
            deadline = time.monotonic() + WITHIN_S
            while cloud.account.running():
                assert time.monotonic() < deadline
                time.sleep(0.1)
        finally:
            command.kill()
    assert box.ending.is_set() and len(cloud.account.launched) == 1
