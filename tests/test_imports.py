"""Imports go one way: each room knows only those above it in the list of rooms."""

import ast
import json
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.rooms import READMES, ROOMS, may_import, room_of, table, with_table, within

ROOT = Path(__file__).parents[1]
PARTS = ("workloads", "tasks", "flows", "infra", "gridbench")
OURS = {*PARTS, "tests", "deployments"}
CLOUDS = {
    "prefect",
    "prefect_aws",
    "prefect_kubernetes",
    "boto3",
    "botocore",
    "kubernetes",
    "paramiko",
    "asyncssh",
}
PURE = {*CLOUDS, "torch", "yaml", "httpx", "requests"}  # what pure functions on records have no use for
# Third-party packages that a room must not import; other rooms have the rule of their part.
BANNED = {
    "workloads": {*CLOUDS, "pandas", "pydantic", "yaml", "scipy", "rich", "typer", "altair"},
    "tasks": {"torch", "typer"},
    "tasks.results": PURE,
    "tasks.plausibility": PURE,
    "tasks.findings": PURE,
    "flows": {"torch", "typer"},
    "infra": {"torch"},
    "gridbench": {"torch"},
}
PACKAGES = {"torch", "numpy", "psutil", "pynvml"}  # all that a box needs that only measures
# Packages of a box that loads a server; imported when a load begins.
LOCAL = {"workloads.serving.client": {"aiohttp"}, "workloads.serving.play": {"aiohttp"}}


def imports_of(source, module, package=False):
    """Return all modules that a source imports anywhere; `from a import b` gives a.b."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = module.split(".")[: (1 if package else 0) - node.level or None] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return found


def offences(source, module, package=False):
    banned = BANNED[max((part for part in BANNED if within(module, part)), key=len)]
    return sorted(
        name
        for name in imports_of(source, module, package)
        if any(within(name, other) for other in banned)
        or (name.partition(".")[0] in OURS and not (is_product(name) and may_import(module, name)))
    )


def is_product(name):
    return name.partition(".")[0] in PARTS


def modules():
    """Yield each of our modules: its file, its dotted name, and whether it is a package."""
    for part in PARTS:
        for path in sorted((ROOT / part).rglob("*.py")):
            names = path.relative_to(ROOT).with_suffix("").parts
            package = names[-1] == "__init__"
            yield path, ".".join(names[:-1] if package else names), package


MODULES = {name: (path, package) for path, name, package in modules()}


def test_imports_go_one_way():
    seen = {
        module: offences(path.read_text(), module, package) for module, (path, package) in MODULES.items()
    }
    assert {module: names for module, names in seen.items() if names} == {}


def test_a_box_needs_torch_and_little_else():
    allowed = {"workloads", *PACKAGES, *sys.stdlib_module_names}
    others = [
        (module, name)
        for module, (path, package) in MODULES.items()
        if within(module, "workloads")
        for name in imports_of(path.read_text(), module, package)
        if name.partition(".")[0] not in allowed | LOCAL.get(module, set())
    ]
    assert others == []


def module_of(name):
    """Return our module of an imported name: `a.b.f` is in `a.b`; None for others'."""
    while name and name not in MODULES:
        name = name.rpartition(".")[0]
    return name or None


def imports_while_loading(source, module, package=False):
    """Return a source's imports at load time, without functions and type checking."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        is_for_checkers = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if is_for_checkers or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [ast.Pass()]
    return imports_of(ast.unparse(tree), module, package)


def test_no_modules_import_each_other():
    graph = {
        module: {module_of(name) for name in imports_while_loading(path.read_text(), module, package)}
        - {None, module}
        for module, (path, package) in MODULES.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_all_parts_were_looked_at():
    for module in (
        "workloads.harness.probes.gpu",
        "tasks.results.speedup",
        "tasks.planning.plan",
        "flows.bench",
        "gridbench",
    ):
        assert module in MODULES


@pytest.mark.parametrize(
    ("module", "source", "found"),
    [
        ("workloads.x", "import tasks.planning.plan", ["tasks.planning.plan"]),
        ("workloads.x", "def f():\n    from tasks.planning import plan", ["tasks.planning.plan"]),
        ("workloads.x", "from prefect.artifacts import Artifact", ["prefect.artifacts.Artifact"]),
        ("workloads.x", "if TYPE_CHECKING:\n    import pandas as pd", ["pandas"]),
        ("workloads.x", "import torch, numpy.linalg, workloads.y", []),
        ("workloads.x", "import tasks_of_another", []),
        ("tasks.x", "from flows.bench import bench", ["flows.bench.bench"]),
        ("tasks.x", "from tasks.analysis import cost; import prefect", []),
        ("tasks.results.x", "from tasks.planning.plan import Plan", ["tasks.planning.plan.Plan"]),
        ("tasks.results.x", "from workloads import matmul", ["workloads.matmul"]),
        ("tasks.results.x", "from workloads.harness.records.record import Record", []),
        ("tasks.results.x", "import prefect", ["prefect"]),
        ("tasks.results.x", "from ..planning.plan import Plan", ["tasks.planning.plan.Plan"]),
        ("tasks.results.x", "from .model import Machine", []),
        ("tasks.planning.x", "import tasks.dispatch.submit", ["tasks.dispatch.submit"]),
        ("tasks.planning.x", "import tasks.results.values, tasks.errors", []),
        ("workloads.harness.records.x", "import workloads.harness.engine.x", ["workloads.harness.engine.x"]),
        ("workloads.harness.registry", "import workloads", []),
        ("flows.x", "import gridbench", ["gridbench"]),
        (
            "infra.workers.x",
            "from workloads.harness.repeat.runs import run_repeat",
            ["workloads.harness.repeat.runs.run_repeat"],
        ),
        ("infra.aws.x", "from tasks.errors import GridbenchError", ["tasks.errors.GridbenchError"]),
        ("infra.workers.x", "from infra.local import stack", ["infra.local.stack"]),
        ("gridbench.x", "from flows.bench import bench", ["flows.bench.bench"]),
        ("gridbench.x", "import torch", ["torch"]),
    ],
)
def test_an_offence_would_be_seen(module, source, found):
    assert offences(source, module) == found


def loaded_by(code):
    script = f"{code}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True
    )
    return set(json.loads(found.stdout.splitlines()[-1]))


HEAVY = {"torch", "numpy", "scipy", "pandas", "prefect", "boto3", "pydantic", "yaml"}


LATER = (
    "workloads.nets",
    "workloads.harness.training.data_files",
    *(f"workloads.harness.checks.{name}" for name in ("fakes", "needs", "script_needs")),
)  # loaded when a workload is built that needs them, or when memory is predicted


@pytest.mark.parametrize(
    "code",
    [
        "import workloads",
        "from workloads.__main__ import main; main(['list'])",
        "\n".join(
            f"import {m}"
            for m in MODULES
            if within(m, "workloads")
            and not any(within(m, later) for later in (*LATER, "workloads.__main__"))
        ),
    ],
    ids=["workloads", "list", "every module"],
)
def test_listing_commands_stay_instant(code):
    loaded = loaded_by(code)
    assert "workloads" in loaded
    assert loaded & HEAVY == set()


@pytest.mark.server
def test_planning_and_reporting_never_import_torch():
    loaded = loaded_by("import flows.bench, flows.lane, gridbench.main")
    assert "prefect" in loaded
    assert "torch" not in loaded


@pytest.mark.server
def test_drawing_libraries_are_loaded_only_when_something_is_drawn():
    loaded = loaded_by("import flows.bench, flows.lane, gridbench.main")
    assert loaded & {"pandas", "altair", "vl_convert", "boto3"} == set()


@pytest.mark.parametrize(("name", "every"), READMES.items())
def test_the_table_of_rooms_is_made_from_the_same_list(name, every):
    text = (ROOT / name).read_text()
    assert with_table(text, every) == text, "run `python -m tests.rooms`"


def test_every_module_has_a_room_and_every_room_a_module():
    assert {room_of(module).name for module in MODULES} == {room.name for room in ROOMS}
    assert sum(line.startswith("| `") for line in table(every=True).splitlines()) == len(ROOMS)
