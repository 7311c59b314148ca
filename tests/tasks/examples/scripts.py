"""Suites, plans and records of a user's own script."""

from pathlib import Path
from typing import Any

from tasks.planning.plan import Plan
from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest
from tests.tasks.examples.records import record
from workloads.harness.records.case import Case
from workloads.harness.records.record import Record
from workloads.harness.records.repeat import Repeat
from workloads.harness.records.script import OWN, ScriptRun


def own(batch: int, name: str = "train") -> Case:
    return Case.of(name, {"batch": batch}, OWN)


def suite_of(
    folder: Path, sizes: str = "[16, 32]", more: str = "", run: str = "train.py --batch {batch}"
) -> Path:
    code = folder / "code"
    code.mkdir(exist_ok=True, parents=True)
    (code / "train.py").write_text("print('a step')\n")
    path = folder / "mine.toml"
    table = f'[[scripts]]\nrun = "{run}"\nfolder = "code"\nsize = {{ batch = {sizes} }}\n'
    path.write_text(f"{table}{more}\n")
    return path


def plan_of(
    folder: Path, sizes: str = "[16, 32]", more: str = "", run: str = "a-run", **request: Any
) -> Plan:
    asked = {"suite": str(suite_of(folder, sizes, more)), "hardware": ["local-cpu"], "seed": 7} | request
    return make_plan(RunRequest(**asked)).model_copy(update={"run": run})


def ran(seconds: float, repeat: Repeat, **changes: Any) -> Record:
    assert repeat.script
    seen = ScriptRun(("train.py", "--batch", "16"), repeat.script.code, repeat.script.dirty)
    same = {"run": repeat.run, "order": repeat.order, "script": seen}
    return record(seconds, repeat.case, repeat.hardware, repeat.repeat, **(same | changes))
