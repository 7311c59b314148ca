import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from infra.local.stack import LocalStack
from infra.local.warm_worker import FLOW_RUN, NURSERY
from tests.infra.local.stack_ports import SLOW_S
from tests.infra.local.stack_probe import Runs, everything_of, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="flow runs are forked on Linux only")
COUNT = """
import os
from importlib import import_module
from infra.local.warm_worker import WARM
for module in WARM:
    import_module(module)
print(len(os.listdir("/proc/self/task")))
"""
SETTINGS = """
import os, sys
from pathlib import Path
from prefect.settings import get_current_settings
from infra.local.warm_worker import _move

assert get_current_settings().api.url != "http://there.example/api"
_move(Path("/"), os.environ | {"PREFECT_API_URL": "http://there.example/api", "PREFECT_HOME": sys.argv[1]})
found = get_current_settings()
assert (found.api.url, found.home) == ("http://there.example/api", Path(sys.argv[1])), found
"""


def test_a_flow_run_has_the_settings_of_its_own_environment(tmp_path):
    subprocess.run([sys.executable, "-c", SETTINGS, str(tmp_path)], check=True, timeout=60)


def test_imports_before_a_fork_start_no_thread():
    counted = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=True)
    assert counted.stdout.split() == ["1"]


@pytest.mark.flaky(
    reruns=2, reason="a real Prefect server and its workers answer late where the machine is busy"
)
def test_a_flow_run_ends_with_its_nursery_and_the_next_one_starts_without(state: Path, stack: LocalStack):
    runs = Runs(state, stack.api_url)
    run = runs.start()
    runs.wait(run, "RUNNING")
    forked = next(one for one in everything_of(state) if one.name() == FLOW_RUN)
    nursery = forked.parent()
    assert nursery and nursery.name() == NURSERY
    assert str(forked.pid) == stack.api.get(f"/flow_runs/{run}").json()["infrastructure_pid"]
    nursery.kill()
    assert until(lambda: not psutil.pid_exists(forked.pid), SLOW_S)
    runs.wait(run, "CRASHED")
    runs.wait(runs.start(seconds=0), "COMPLETED")
    assert stack.check() is None
