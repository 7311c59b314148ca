"""Patterns of odd English in the project's texts: `python -m tests.prose [PATH…]` lists them.

`--budget` lowers the budgets. A run-time text (README, help, terminal, report, errors, states, forms) must
have none. Docs, docstrings and comments have at most as many as `prose_budget.json` allows their room; that
number can only fall. A quotation is left out if its line ends with `# quoted`.
"""

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from tests.rooms import room_of

ROOT = Path(__file__).parents[1]
BUDGET = Path(__file__).with_name("prose_budget.json")
PRODUCT = ("workloads", "tasks", "flows", "infra", "gridbench")
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
)  # read first, so they follow the rules of run-time texts
OPTIONS = re.compile(r"\btyper\.(?:Option|Argument)|\bResults\b|\bRunName\b|\bBudget\b")  # of a command
FEWEST_WORDS = 3  # of a string that is a text and not a key or an address
PATTERNS = {
    r"\bwhat (?:is|was|are|were|has|had|it|they|an?|the|we|he|nobody|somebody|others?|there|cannot|can|runs?|each|one)\b": (
        "name the thing instead of a clause with 'what'"
    ),
    r"\bwhoever\b|\b(?:no|some)body\b": "name the person or the thing",
    r"[,;:]? where (?:it|there|that|a|an|the|one|they|its|no|none|nothing|nobody|all|this)\b": (
        "'if', 'when' or 'in which'"
    ),
    r"(?<!there )\b(?:is|are|was|were) no (?!longer\b|more\b|matter\b)\w+": "'is not a …', 'has no …' or 'there is no …'",
    r"(?<!there )\b(?:is|are|was|were|has|have|had) none\b": "negate the verb",
    r"\b(?<!\d )may\b(?! \d)": "'can', 'might' or 'is allowed to'",
    r"\bbeside\b": "'next to', 'besides' or 'while'",
    r"\btold\b|\btells? (?:of|apart)\b": "'reported', 'stated' or 'distinguished'",
    r"\bof (?:ours|theirs|yours|hers|(?:its|one's|his|their|somebody's) own)\b": "'our', 'its own', 'their own'",
    r"\b(?:is|are|was|were) to be\b": "'must be', 'will be' or 'can be'",
    r"\bso (?:many|much|long|few)\b": "give the number or the limit",
    r"\bsa(?:y|ys|id) (?:of|so)\b": "'states', 'reports'",
    r"\bheld against\b": "'compared with'",
    r"\b(?:which|this|that) is what\b": "name the thing",
}
COMPILED = {re.compile(pattern, re.IGNORECASE): advice for pattern, advice in PATTERNS.items()}


class Text(NamedTuple):
    """A piece of English: its place, whether it is shown at run time, and its words."""

    path: Path
    line: int
    shown: bool
    words: str


class Hit(NamedTuple):
    text: Text
    phrase: str
    advice: str


def texts(path: Path) -> Iterator[Text]:
    source = path.read_text()
    if path.suffix == ".py":
        yield from _python(path, source)
    elif path.suffix == ".md":
        shown = path.relative_to(ROOT).as_posix() in PAGES
        for line, words in _without_code(source):
            yield Text(path, line, shown, words)
    elif path.suffix == ".j2":
        plain = re.sub(
            r"\{[#%].*?[#%]\}|\{\{.*?\}\}|<(?:style|script)\b.*?</(?:style|script)>|<[^>]*>",
            _blank,
            source,
            flags=re.S,
        )
        for line, words in enumerate(plain.splitlines(), 1):
            yield Text(path, line, True, words)
    elif path.suffix in {".yaml", ".yml"}:
        for node in yaml.compose_all(source):
            yield from _strings_of_yaml(path, node)


def _blank(match: re.Match[str]) -> str:
    """Return the match's line breaks, so that lines keep their numbers."""
    return "\n" * match.group().count("\n") or " "


def _without_code(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a Markdown page outside code blocks, without code spans."""
    fenced = False
    for number, line in enumerate(source.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, re.sub(r"`[^`]*`", "", line)


def _strings_of_yaml(path: Path, node: yaml.Node | None) -> Iterator[Text]:
    if isinstance(node, yaml.ScalarNode):
        if node.tag.endswith(":str") and len(node.value.split()) >= FEWEST_WORDS:
            yield Text(path, node.start_mark.line + 1, True, node.value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _strings_of_yaml(path, item)
    elif isinstance(node, yaml.MappingNode):
        for _, value in node.value:
            yield from _strings_of_yaml(path, value)


def _python(path: Path, source: str) -> Iterator[Text]:
    """Yield docstrings, comments, and the product's strings, which are shown."""
    lines, tree = source.splitlines(), ast.parse(source)
    part = path.relative_to(ROOT).parts[0]
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            words = ast.get_docstring(node)
            if words:
                docstrings.add(id(node.body[0].value))  # type: ignore[attr-defined]
                yield Text(path, node.body[0].lineno, _is_shown(part, node), words)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text(path, token.start[0], False, token.string.lstrip("# "))
    if part in PRODUCT:
        inside = {
            id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)
        }
        for node in ast.walk(tree):
            words = _string(node, inside) if id(node) not in docstrings else ""
            quoted = words and any("# quoted" in line for line in lines[node.lineno - 1 : node.end_lineno])
            if len(words.split()) >= FEWEST_WORDS and not quoted:
                yield Text(path, node.lineno, True, words)


def _is_shown(part: str, node: ast.AST) -> bool:
    """Return whether a docstring is a command's help, or a flow's description in the Prefect UI."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
        return False
    is_flow = any("flow" in ast.unparse(decorator) for decorator in node.decorator_list)
    return (part == "flows" and is_flow) or (
        part == "gridbench" and bool(OPTIONS.search(ast.unparse(node.args)))
    )


def _string(node: ast.AST, inside: set[int]) -> str:
    """Return the words of a string or f-string; an f-string's parts count with the whole."""
    if isinstance(node, ast.JoinedStr):
        values = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        return "".join(map(str, values))
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
        return node.value
    return ""


def hits(text: Text) -> Iterator[Hit]:
    for pattern, advice in COMPILED.items():
        for match in pattern.finditer(text.words):
            yield Hit(text, match.group().strip(), advice)


def files(*names: str) -> list[Path]:
    """Return the files that git knows below these paths, without tests' data."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *names],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\n")  # fmt: skip
    paths = (ROOT / name for name in listed if name)
    return [path for path in paths if path.is_file() and _is_read(path)]


def _is_read(path: Path) -> bool:
    name = path.relative_to(ROOT)
    if name.parts[0] == "tests":
        return path.suffix == ".py" and path != Path(__file__)
    in_product = name.parts[0] in (*PRODUCT, "deployments")
    return path.suffix in {".py", ".md"} or (in_product and path.suffix in {".j2", ".yaml", ".yml"})


def room(path: Path) -> str:
    """Return the room of a file's budget: of the product, `docs`, or a folder of tests."""
    name = path.relative_to(ROOT)
    if name.parts[0] in PRODUCT and path.suffix == ".py":
        return room_of(".".join(name.with_suffix("").parts)).name
    return ".".join(name.parts[: 2 if name.parts[0] == "tests" and len(name.parts) > 2 else 1])


def counts() -> dict[str, int]:
    """Return each room's number of patterns in docs, docstrings and comments."""
    found = Counter(
        room(path) for path in files() for text in texts(path) if not text.shown for _ in hits(text)
    )
    return dict(sorted(found.items()))


def shown_hits(*names: str) -> list[str]:
    found = (hit for path in files(*names) for text in texts(path) if text.shown for hit in hits(text))
    return [line_of(hit) for hit in found]


def line_of(hit: Hit) -> str:
    """Describe a hit: place, phrase, advice, and the words around it."""
    words = " ".join(hit.text.words.split())
    middle = max(words.find(hit.phrase), 0)
    around = words[max(middle - 50, 0) : middle + 70]
    return f"{hit.text.path.relative_to(ROOT)}:{hit.text.line}: '{hit.phrase}' ({hit.advice}): …{around}…"


def main() -> None:
    """List the patterns in run-time texts below the given paths; `--all` adds other texts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--all", action="store_true", help="docs, docstrings and comments, too")
    parser.add_argument(
        "--budget", action="store_true", help="write lower budgets; refuse to write a higher one"
    )
    arguments = parser.parse_args()
    if arguments.budget:
        now, before = counts(), json.loads(BUDGET.read_text()) if BUDGET.exists() else {}
        higher = {
            name: count for name, count in now.items() if count > before.get(name, count if not before else 0)
        }
        if higher:
            sys.exit(
                f"budgets can only fall; more patterns than before in {higher}: list them with --all PATH"
            )
        BUDGET.write_text(json.dumps({name: count for name, count in now.items() if count}, indent=2) + "\n")
        return
    listed = shown_hits(*arguments.paths)
    if arguments.all:
        every = (
            hit
            for path in files(*arguments.paths)
            for text in texts(path)
            if not text.shown
            for hit in hits(text)
        )
        listed += [line_of(hit) for hit in every]
    print("\n".join([*listed, f"{len(listed)} patterns"]))
    sys.exit(bool(listed))


if __name__ == "__main__":
    main()
