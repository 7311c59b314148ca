"""Imports go one way (design, section 3): each part knows only those below it."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OURS = {"workloads", "tasks", "flows", "infra", "gridbench", "tests", "deployments"}
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
# Part of the tree, what of ours it may import, and what of others' it may not: the longest name that fits counts.
RULES = {
    "workloads": ({"workloads"}, {*CLOUDS, "pandas", "pydantic", "yaml", "scipy", "rich", "typer", "altair"}),
    "tasks": ({"tasks", "workloads"}, {"torch", "typer"}),
    "tasks.results": ({"tasks.results", "workloads.harness"}, PURE),
    "tasks.plausibility": ({"tasks.plausibility", "tasks.results", "workloads.harness"}, PURE),
    "tasks.findings": (
        {"tasks.findings", "tasks.plausibility", "tasks.results", "workloads.harness"},
        PURE,
    ),
    "flows": ({"flows", "infra", "tasks", "workloads"}, {"torch", "typer"}),
    "infra": ({"infra"}, {"torch"}),
    "infra.images.reference": ({"infra", "workloads"}, {"torch"}),  # it freezes the workloads
    "infra.workers": ({"infra.workers"}, {"torch"}),
    "gridbench": ({"gridbench", "infra", "tasks", "workloads"}, {"torch"}),
}
PACKAGES = {"torch", "numpy", "psutil", "pynvml"}  # all that a box needs that only measures


def imports_of(source, module, package=False):
    """Full names of all modules that a source imports, wherever in it; `from a import b` gives a.b."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = module.split(".")[: (1 if package else 0) - node.level or None] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return found


def within(name, parts):
    return any(name == part or name.startswith(f"{part}.") for part in parts)


def rule_of(module):
    return RULES[max((part for part in RULES if within(module, [part])), key=len)]


def offences(source, module, package=False):
    """Imports of a module that its rule does not allow."""
    ours, banned = rule_of(module)
    return sorted(
        name
        for name in imports_of(source, module, package)
        if within(name, banned) or (within(name, OURS) and not within(name, ours))
    )


def modules():
    """Every module of ours: its file, its dotted name, and whether it is a package."""
    for part in ("workloads", "tasks", "flows", "infra", "gridbench"):
        for path in sorted((ROOT / part).rglob("*.py")):
            names = path.relative_to(ROOT).with_suffix("").parts
            package = names[-1] == "__init__"
            yield path, ".".join(names[:-1] if package else names), package


MODULES = {name: (path, package) for path, name, package in modules()}


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_one_way(module):
    path, package = MODULES[module]
    assert offences(path.read_text(), module, package) == []


@pytest.mark.parametrize("module", [m for m in MODULES if within(m, ["workloads"])])
def test_a_box_needs_torch_and_little_else(module):
    path, package = MODULES[module]
    tops = {name.partition(".")[0] for name in imports_of(path.read_text(), module, package)}
    assert tops - sys.stdlib_module_names - PACKAGES <= {"workloads"}


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
    """Names of the modules that are loaded after some code, in a fresh interpreter."""
    script = f"{code}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True
    )
    return set(json.loads(found.stdout.splitlines()[-1]))


HEAVY = {"torch", "numpy", "scipy", "pandas", "prefect", "boto3", "pydantic", "yaml"}


LATER = (
    "workloads.nets",
    "workloads.harness.training.data_files",
)  # loaded when a workload is built that needs them


@pytest.mark.parametrize(
    "code",
    [
        "import workloads",
        "from workloads.__main__ import main; main(['list'])",
        "\n".join(
            f"import {m}"
            for m in MODULES
            if within(m, ["workloads"]) and not within(m, [*LATER, "workloads.__main__"])
        ),
    ],
    ids=["workloads", "list", "every module"],
)
def test_listing_what_there_is_stays_instant(code):
    loaded = loaded_by(code)
    assert "workloads" in loaded
    assert loaded & HEAVY == set()


@pytest.mark.server
def test_what_plans_and_reports_never_imports_torch():
    loaded = loaded_by("import flows.bench, flows.lane, gridbench.main")
    assert "prefect" in loaded
    assert "torch" not in loaded


@pytest.mark.server
def test_what_draws_is_not_loaded_before_there_is_something_to_draw():
    loaded = loaded_by("import flows.bench, flows.lane, gridbench.main")
    assert loaded & {"pandas", "altair", "vl_convert", "boto3"} == set()
