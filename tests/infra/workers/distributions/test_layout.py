import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from infra.workers.brand import BRAND
from infra.workers.branding import Branding
from infra.workers.distributions.layout import DISTRIBUTIONS, SUFFIXES, WORKERS, lay, own_tests, sources
from tests.infra.workers.distributions.clean import brand_of

TESTS = Path(__file__).parents[1]
EACH = pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=lambda distribution: distribution.name)
OUR_WORDS = re.compile(r"gridbench|\binfra\b|\blanes?\b|measur|\btorch\b", re.IGNORECASE)
LOADED_BY_NAME = {"websockets"}  # by uvicorn


@pytest.fixture(scope="module")
def laid(tmp_path_factory):
    folder = tmp_path_factory.mktemp("laid")
    for distribution in DISTRIBUTIONS:
        lay(distribution, folder / distribution.name, TESTS)
    return {distribution: folder / distribution.name for distribution in DISTRIBUTIONS}


def project_of(distribution):
    return tomllib.loads((distribution.project / "pyproject.toml").read_text())


def imported(folder):
    nodes = [node for path in folder.rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    return {name.partition(".")[0] for name in names}


def modules(project):
    return [path for path in project.rglob("*.py") if "tests" not in path.relative_to(project).parts]


def names_of(tree):
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.name for node in ast.walk(tree) if hasattr(node, "name")}
    return names | {
        alias.asname or alias.name
        for node in ast.walk(tree)
        for alias in getattr(node, "names", ())
        if isinstance(alias, ast.alias)
    }


@EACH
def test_all_files_of_a_worker_are_copied_byte_for_byte_except_its_brand(distribution, laid):
    package = laid[distribution] / distribution.package / "workers"
    copied = {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}
    files = [path for path in WORKERS.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    names = {path.relative_to(WORKERS).as_posix() for path in files}
    expected = {name for name in names if name.partition("/")[0] in distribution.folders}
    expected |= {"__init__.py", "brand.py", "branding.py"}
    assert copied == expected - {*distribution.left_out}
    assert {Path(name).suffix for name in copied} <= SUFFIXES
    different = {name for name in copied if (package / name).read_bytes() != (WORKERS / name).read_bytes()}
    assert different == {"brand.py"}


@EACH
def test_a_brand_differs_in_its_names_only(distribution):
    brand = brand_of(distribution)
    assert type(brand) is Branding
    assert brand.name != BRAND.name and brand.env_prefix != BRAND.env_prefix
    assert not brand.code_module, "it has no checkout to send"


@EACH
def test_no_file_speaks_of_this_repository(distribution, laid):
    written = [path for path in laid[distribution].rglob("*") if path.is_file() and "tests" not in path.parts]
    spoken = {path.name: OUR_WORDS.findall(path.read_text()) for path in written}
    assert {name: words for name, words in spoken.items() if words} == {}


@EACH
def test_the_package_imports_only_modules_that_it_has(distribution, laid):
    checked = 0
    for path in modules(laid[distribution]):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                folder = path.parents[node.level - 1]
                target = folder.joinpath(*(node.module or "").split("."))
                source = target.with_suffix(".py") if node.module else folder / "__init__.py"
                source = source if source.is_file() else target / "__init__.py"
                names = names_of(ast.parse(source.read_text()))
                for alias in node.names:
                    checked += 1
                    assert alias.name in names or (target / f"{alias.name}.py").is_file(), (path, alias.name)
    assert checked > 100


@EACH
def test_a_distribution_requires_exactly_its_imports(distribution, laid):
    required = {Requirement(line).name for line in project_of(distribution)["project"]["dependencies"]}
    providers = packages_distributions()
    foreign = imported(laid[distribution] / distribution.package) - sys.stdlib_module_names
    foreign -= {distribution.package}
    assert {providers[name][0].lower().replace("_", "-") for name in foreign} == required - LOADED_BY_NAME


@EACH
def test_installed_versions_meet_the_requirements_of_a_distribution(distribution):
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
def test_a_distribution_has_tests_of_its_worker_and_of_shared_modules(distribution, laid):
    own = own_tests(distribution, TESTS)
    assert {name.partition("/")[0] for name in own} == {*distribution.folders}
    for name, path in own.items():
        assert (laid[distribution] / "tests" / name).read_bytes() == path.read_bytes()
    assert imported(laid[distribution] / "tests") - sys.stdlib_module_names <= {
        *imported(laid[distribution] / distribution.package),
        distribution.package,
        "infra",
        "pytest",
    }
