"""House rules: short files and functions, one name for one class, docstrings that are sentences."""

import ast
import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import pytest

from workloads.harness.registry import FOLDERS

ROOT = Path(__file__).parents[1]
PARTS = ("workloads", "tasks", "flows", "infra", "gridbench")
FILES = sorted(path for part in PARTS for path in (ROOT / part).rglob("*.py"))
MOST_LINES, MOST_WORKLOAD_LINES, MOST_FUNCTION_LINES, MOST_WH_SHARE = 500, 120, 60, 0.03
WH = re.compile(r"(What|Whether|How|Why|Which|Where|Who|When)\b")
# Names that state a value's history instead of the value.
VAGUE = {"found", "place", "one", "known", "wanted", "told", "asked", "said", "of"}
MOST_VAGUE_SHARE = 0.01


@cache  # seconds, which only a process that runs a test of this file should spend
def trees():
    return {path: ast.parse(path.read_text()) for path in FILES}


def functions():
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield path, node


def names_in(target):
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, ast.Tuple | ast.List):
        for element in target.elts:
            yield from names_in(element)
    elif isinstance(target, ast.Starred):
        yield from names_in(target.value)


def bindings(tree):
    """Yield every name that a source binds: parameters, assignments, loops, with statements."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                yield from names_in(target)
        elif isinstance(
            node, ast.AnnAssign | ast.AugAssign | ast.For | ast.AsyncFor | ast.NamedExpr | ast.comprehension
        ):
            yield from names_in(node.target)
        elif isinstance(node, ast.withitem) and node.optional_vars:
            yield from names_in(node.optional_vars)


def paths_of_tests(tree):
    """Return texts in a source, without docstrings, that name a path of tests."""
    nodes = list(ast.walk(tree))
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    docstrings = {
        ast.get_docstring(node, clean=False)
        for node in nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    }
    return [text for text in texts if text not in docstrings and re.search(r"\btests/", text)]


def test_a_file_is_short():
    lines = {path.relative_to(ROOT).as_posix(): path.read_text().count("\n") for path in FILES}
    assert {path: count for path, count in lines.items() if count > MOST_LINES} == {}


def test_a_function_is_short():
    """Only bodies count: a command's parameters carry the help of its options."""
    long = {
        f"{path.relative_to(ROOT)}:{node.name}": lines
        for path, node in functions()
        if (lines := lines_of(node)) > MOST_FUNCTION_LINES
    }
    assert long == {}


def lines_of(node):
    first = node.body[1 if ast.get_docstring(node) and len(node.body) > 1 else 0]
    return node.end_lineno - first.lineno + 1


def test_a_workload_is_read_at_a_glance():
    """Networks and shared parts are in `workloads/nets`."""
    folders = [ROOT.joinpath(*folder.split(".")) for folder in FOLDERS]
    lines = {
        path.relative_to(ROOT).as_posix(): path.read_text().count("\n")
        for folder in folders
        for path in folder.glob("*.py")
    }
    assert {path: count for path, count in lines.items() if count > MOST_WORKLOAD_LINES} == {}


def test_a_class_name_means_one_class():
    homes = defaultdict(list)
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(path.relative_to(ROOT).as_posix())
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_docstrings_are_sentences_and_no_clauses():
    docstrings = [
        (path.relative_to(ROOT).as_posix(), ast.get_docstring(node))
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node)
    ]
    clauses = [(path, text.splitlines()[0]) for path, text in docstrings if WH.match(text)]
    assert len(clauses) <= MOST_WH_SHARE * len(docstrings), clauses


def test_names_state_values_and_not_their_history():
    counts = Counter(name for tree in trees().values() for name in bindings(tree))
    vague = {name: counts[name] for name in sorted(VAGUE) if counts[name]}
    assert sum(vague.values()) <= MOST_VAGUE_SHARE * counts.total(), vague


def test_the_product_never_opens_tests():
    opened = {path.relative_to(ROOT).as_posix(): paths_of_tests(tree) for path, tree in trees().items()}
    assert {path: texts for path, texts in opened.items() if texts} == {}


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("open('tests/x.json')", ["tests/x.json"]),
        ("def f():\n    'See tests/x.'\n    return 'tests/y'", ["tests/y"]),
        ("'latests/x'", []),
    ],
)
def test_a_path_of_tests_is_seen(source, texts):
    assert paths_of_tests(ast.parse(source)) == texts


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("found = 1", {"found"}),
        ("for of, (a, *b) in c: pass", {"of", "a", "b"}),
        ("def f(told, *, asked=1): pass", {"told", "asked"}),
        ("with open(x) as one: pass", {"one"}),
        ("[place for place in x]", {"place"}),
        ("if (known := f()): pass", {"known"}),
    ],
)
def test_every_binding_is_seen(source, names):
    assert set(bindings(ast.parse(source))) == names
