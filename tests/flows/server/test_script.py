import asyncio
import os
import sys

import pytest

from tasks.store.store import Store, runs
from tests.exit_codes import assert_measured
from workloads.harness.records.record import Verdict

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a real Prefect server and its workers answer late where the machine is busy"
)
SCRIPT = """
import sys
import torch

batch = int(sys.argv[1].removeprefix("--batch="))
model = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(200):
    optimizer.zero_grad()
    model(torch.randn(batch, 16)).square().mean().backward()
    optimizer.step()
if batch == 3:
    raise KeyError("no such batch")
"""


@pytest.fixture
def code(tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(SCRIPT)
    return tmp_path / "code"


async def test_a_script_is_measured_by_one_command_where_it_lies(bench, code):
    words = ("--on", "local-cpu", "--size", "batch=2", "--repeats", "1", "--results", str(bench.results))
    command = (sys.executable, "-c", "from gridbench.main import main; main()", "train", *words)
    pipe = asyncio.subprocess.PIPE
    started = await asyncio.create_subprocess_exec(
        *(*command, "--name", "tiny", "--", "train.py", "--batch={batch}"),
        cwd=code,
        env=os.environ | {"PYTHONPATH": str(os.getcwd())},
        stdout=pipe,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(started.communicate(), 500)
    said = out.decode()
    assert_measured(started.returncode, said)
    (name,) = [run for run in runs(bench.results) if run.split("-")[2] == "tiny"]
    store = Store.open(bench.results, name)
    (record,), (planned,) = store.records()[0], store.plan.cases
    assert record.cell.id == "local-cpu/tiny/batch=2/own" and record.wall and record.script
    assert record.script.code == planned.script.code != ""
    assert (
        record.script.steps == 200 and record.script.samples == 2 and record.script.command[1] == "--batch=2"
    )
    assert f"{bench.results}/suites/tiny.toml" in said and str(store.folder / "report.html") in said
    assert sorted(path.name for path in code.iterdir() if path.name != "__pycache__") == ["train.py"]


async def test_a_script_that_fails_is_a_failed_cell_that_says_why(bench, code):
    asked = {"command": "train.py --batch={batch}", "folder": str(code), "sizes": "batch=3", "repeats": 1}
    async with bench.client() as client:
        deployed = await client.read_deployment_by_name("bench/script")
        parameters = asked | {"results": str(bench.results)}
        run = await client.create_flow_run_from_deployment(deployed.id, parameters=parameters)
    state = await bench.end(run.id)
    assert (state.is_failed(), state.name) == (True, "NothingMeasured")
    store = await bench.store(run.id)
    (record,) = store.records()[0]
    cell = (await bench.tasks(run.id))[record.cell.id].state
    assert record.verdict is Verdict.CRASHED and "no such batch" in "; ".join(record.reasons)
    assert (cell.name, cell.message) == ("Crashed", "; ".join(record.reasons))
