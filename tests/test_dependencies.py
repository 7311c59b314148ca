"""Every imported package is in pyproject.toml, and in the lock with hashes."""

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import pytest

from infra.images.flavours import locked

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OURS = {"workloads", "tasks", "flows", "infra", "gridbench"}
# Modules found by their folder, packages that a test installs, and one that no package provides.
BESIDE_TESTS = {"stand_in", "gguf", "xllamacpp", "no_such_package"}
OWNERS = packages_distributions()


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(*extras):
    """Return the packages that pyproject.toml names, without versions."""
    lines = [
        *PROJECT["dependencies"],
        *(line for extra in extras for line in PROJECT["optional-dependencies"][extra]),
    ]
    return {plain(re.match(r"[A-Za-z0-9._-]+", line)[0]) for line in lines}


@cache
def modules_of(folder):
    """Return the modules that a folder imports from others, each with an importing file."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            for name in names:
                if name.partition(".")[0] not in sys.stdlib_module_names:
                    found.append((name, path.relative_to(ROOT)))
    return found


@cache
def owners(module):
    """Return a module's possible distributions; of a namespace, those with the module's own files."""
    found = OWNERS.get(module.partition(".")[0], [])
    if len(set(found)) < 2:
        return set(found)
    parts = module.split(".")
    prefixes = ["/".join(parts[:count]) for count in range(len(parts), 1, -1)]
    for prefix in prefixes:
        has = {
            one
            for one in set(found)
            if any(str(file).startswith((f"{prefix}/", f"{prefix}.py")) for file in distribution(one).files)
        }
        if has:
            return has
    return set(found)


def undeclared(folder, known):
    """Return a folder's imports of undeclared packages, each with a file."""
    found = {}
    for module, path in modules_of(ROOT / folder):
        if module.partition(".")[0] in {*OURS, "tests", *BESIDE_TESTS}:
            continue
        if not {plain(one) for one in owners(module)} & known:
            found[module.partition(".")[0]] = (
                f"{path} imports {module}, of {sorted(owners(module)) or 'nobody'}"
            )
    return sorted(found.values())


@pytest.mark.parametrize("folder", sorted(OURS))
def test_every_import_of_the_product_is_declared(folder):
    assert not undeclared(folder, declared())


def test_every_import_of_the_tests_is_declared():
    assert not undeclared("tests", declared("dev"))


def test_an_undeclared_import_is_seen():
    assert any("imports grpc" in line for line in undeclared("infra", declared() - {"grpcio"}))
    assert any("google.auth" in line for line in undeclared("infra", declared() - {"google-auth"}))


def test_everything_declared_is_locked():
    assert not declared("dev") - {plain(name) for name in locked()}


def test_every_line_of_the_lock_has_hashes():
    """Torch is not in it: its build is the machine's own."""
    blocks = re.split(r"\n(?=\S)", (ROOT / "requirements.lock").read_text().strip())
    assert len(blocks) > 150
    for block in blocks:
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[^\n]+\\(\n    --hash=sha256:[0-9a-f]{64}( \\)?)+", block), (
            block[:200]
        )
    assert not [block for block in blocks if block.startswith(("torch==", "triton==", "cuda-"))]


def test_the_base_of_images_is_named_by_its_digest():
    from infra.images.flavours import load

    assert re.fullmatch(r"docker\.io/library/python@sha256:[0-9a-f]{64}", load()["base"])
    assert "ARG BASE_IMAGE\n" in (ROOT / "infra/images/Dockerfile").read_text()
