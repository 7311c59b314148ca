"""The workers that anyone can install: every module is in one, and none knows of Gridbench."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from infra.workers.distributions.layout import (
    DISTRIBUTIONS,
    OURS,
    SUFFIXES,
    WORKERS,
    lay,
    own_tests,
    sources,
)

TESTS = Path(__file__).parents[1]
EACH = pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=lambda distribution: distribution.name)
OUR_WORDS = re.compile(r"gridbench|\binfra\b|\blanes?\b|measur|\btorch\b", re.IGNORECASE)
LOADED_BY_NAME = {"websockets"}  # by uvicorn


@pytest.fixture(scope="module")
def laid(tmp_path_factory):
    """The projects, by name."""
    folder = tmp_path_factory.mktemp("laid")
    for distribution in DISTRIBUTIONS:
        lay(distribution, folder / distribution.name, TESTS)
    return {distribution: folder / distribution.name for distribution in DISTRIBUTIONS}


def project_of(distribution):
    return tomllib.loads((distribution.project / "pyproject.toml").read_text())


def imported(folder):
    """The top packages that the modules in a folder import."""
    nodes = [node for path in folder.rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    return {name.partition(".")[0] for name in names}


def modules(project):
    return [path for path in project.rglob("*.py") if "tests" not in path.relative_to(project).parts]


def module_of(path, project):
    return ".".join(path.relative_to(project).with_suffix("").parts).removesuffix(".__init__")


def names_of(tree):
    """What a module binds, wherever it does."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.name for node in ast.walk(tree) if hasattr(node, "name")}
    return names | {
        alias.asname or alias.name
        for node in ast.walk(tree)
        for alias in getattr(node, "names", ())
        if isinstance(alias, ast.alias)
    }


@EACH
def test_every_file_of_a_worker_is_in_its_distribution(distribution, laid):
    for folder, place in distribution.folders:
        files = [path for path in (WORKERS / folder).rglob("*") if path.is_file()]
        files = [path for path in files if "__pycache__" not in path.parts]
        assert {path.suffix for path in files} <= SUFFIXES
        for path in files:
            name = Path(distribution.package, place, path.relative_to(WORKERS / folder))
            assert (laid[distribution] / name).is_file(), name


@EACH
def test_no_file_of_ours_takes_the_place_of_another(distribution):
    names = [
        Path(place, path.relative_to(WORKERS / folder))
        for folder, place in distribution.folders
        for path in (WORKERS / folder).rglob("*.py")
    ]
    packages = {parent for name in names for parent in name.parents}
    assert len(names) == len(set(names))
    assert not [name for name in names if name.with_suffix("") in packages]


@EACH
def test_no_file_speaks_of_this_repository(distribution, laid):
    written = [path for path in laid[distribution].rglob("*") if path.is_file() and "tests" not in path.parts]
    spoken = {path.name: OUR_WORDS.findall(path.read_text()) for path in written}
    assert {name: words for name, words in spoken.items() if words} == {}


@EACH
def test_every_word_that_is_replaced_is_there(distribution):
    texts = "".join(path.read_text() for path in sources(distribution).values())
    for ours, _ in distribution.words:
        assert ours in texts, ours


@EACH
def test_every_name_that_a_module_imports_from_the_package_is_there(distribution, laid):
    """A module of the distribution's own can stand in for another one of ours."""
    trees = {
        module_of(path, laid[distribution]): ast.parse(path.read_text())
        for path in modules(laid[distribution])
    }
    imports = [
        (node.module, alias.name)
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == distribution.package
        for alias in node.names
    ]
    assert imports
    for module, name in imports:
        assert f"{module}.{name}" in trees or name in names_of(trees[module]), (module, name)


@EACH
def test_what_is_imported_is_required_and_nothing_else_is(distribution, laid):
    required = {Requirement(line).name for line in project_of(distribution)["project"]["dependencies"]}
    providers = packages_distributions()
    foreign = imported(laid[distribution] / distribution.package) - sys.stdlib_module_names
    foreign -= {distribution.package}
    assert {providers[name][0].lower().replace("_", "-") for name in foreign} == required - LOADED_BY_NAME


@EACH
def test_what_is_tested_here_is_what_is_required(distribution):
    for line in project_of(distribution)["project"]["dependencies"]:
        requirement = Requirement(line)
        assert version(requirement.name) in requirement.specifier, line


@EACH
def test_a_distribution_has_one_top_package_which_prefect_loads(distribution):
    """Prefect finds a collection's version by an entry point named like its package."""
    project = project_of(distribution)
    assert project["project"]["name"] == distribution.name
    entry_points = {"prefect.collections": {distribution.package: distribution.package}}
    assert project["project"]["entry-points"] == entry_points
    tool = project["tool"]["setuptools"]
    assert tool["packages"]["find"]["include"] == [f"{distribution.package}*"]
    others = {path for path in sources(distribution) if not path.endswith(".py")}
    assert {f"*{Path(path).suffix}" for path in others} == {*tool.get("package-data", {}).get("*", [])}


@EACH
def test_a_distribution_has_tests_of_its_worker_and_of_what_workers_share(distribution, laid):
    own = own_tests(distribution, TESTS)
    assert {name.partition("/")[0] for name in own} == {folder for folder, _ in distribution.folders}
    for name in own:
        text = (laid[distribution] / "tests" / name).read_text()
        ast.parse(text)
        assert OURS not in text and "gridbench" not in text, name
    assert imported(laid[distribution] / "tests") - sys.stdlib_module_names <= {
        *imported(laid[distribution] / distribution.package),
        distribution.package,
        "pytest",
    }
