import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from gridbench.main import app
from tests.docs.commands import ROOT, workloads_help
from tests.docs.shown import block_of
from workloads.harness.registry import all_workloads
from workloads.harness.repeat.suite import suite_names

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "docs" / "gallery" / "README.md",
]
TREES = "workloads|tasks|flows|gridbench|infra|deployments|tests|docs"
DESIGN = (ROOT / "docs" / "design.md").read_text()
ANYTHING = re.compile(r"<[^>]+>|…|\{[^}]+\}|\*+")  # stands for a name in a path


def code_of(page):
    """Yield each line of a page's blocks, and each of its code spans."""
    text = page.read_text()
    blocks = re.findall(r"^```[a-z]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))
    return [line.strip() for block in blocks for line in block.splitlines()] + spans


def commands_of(page, program):
    """Yield the words of each command of a program on a page, without a script's own words."""
    for line in code_of(page):
        for match in re.finditer(
            rf"(?:^|\$ |- run: |script: |^… )({program} .*?)(?=\s#|;|\||\|\||$| > |…$)", line
        ):
            words = shlex.split(match[1].replace("'", '"').rstrip(",").removesuffix(" \\"))
            yield words[: words.index("--")] if "--" in words else words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_that_a_page_names_exists(page):
    named = {
        path
        for span in code_of(page)
        for path in re.findall(rf"(?<![\w./-])(?:{TREES})/[\w./*<>{{}}…-]*", span)
    }
    for path in named:
        pattern = ANYTHING.sub("*", path.rstrip("./"))
        exists = [*ROOT.glob(pattern), *ROOT.glob(f"{pattern}.py")]  # a room can be a module
        assert exists, f"{path} is named in {page.name} and does not exist"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text()):
        name, _, anchor = target.partition("#")
        path = page.parent / name if name else page
        assert path.exists(), f"{page.name} links {target}"
        assert not anchor or anchor in anchors(path), f"{page.name} links {target}"


def anchors(path):
    """Return GitHub's anchors of a page's headings."""
    heads = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head).lower().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_gridbench_command_exists_with_its_options(page):
    program = get_command(app)
    for words in commands_of(page, "gridbench"):
        command, rest = program, words[1:]
        while rest and hasattr(command, "commands") and rest[0] in command.commands:
            command, rest = command.commands[rest[0]], rest[1:]
        assert command is not program or rest == ["--help"], f"{page.name} shows {shlex.join(words)}"
        needs_name = hasattr(command, "commands") and not command.invoke_without_command
        assert not (needs_name and rest and not rest[0].startswith("-")), (
            f"{page.name} shows {shlex.join(words)}"
        )
        options = {
            option for parameter in command.params for option in [*parameter.opts, *parameter.secondary_opts]
        } | {"--help"}
        shown = {word.partition("=")[0] for word in rest if word.startswith("--")}
        assert shown <= options, f"{page.name}: {shlex.join(words)}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_workloads_command_exists_with_its_options(page):
    for words in commands_of(page, "python -m workloads"):
        name, *rest = words[3:]
        loadtest = ("suite", "loadtest") if [name, *rest[:1]] == ["suite", "loadtest"] else (name,)
        text = help_of(loadtest)
        shown = {word for word in rest if word.startswith("--")}
        assert all(re.search(rf"{option}\b", text) for option in shown), f"{page.name}: {shlex.join(words)}"
        if name in ("run", "largest", "model") and rest and not rest[0].startswith("-"):
            assert rest[0] in all_workloads(), f"{page.name}: {shlex.join(words)}"
        if name == "suite" and rest and not rest[0].startswith("-"):
            assert rest[0] in suite_names(), f"{page.name}: {shlex.join(words)}"


HELP = {}


def help_of(words):
    if words not in HELP:
        HELP[words] = workloads_help(*words)
    return HELP[words]


def test_each_word_of_the_glossary_stands_once():
    words = re.findall(r"\*\*([^*]+)\*\*", "".join(re.findall(r"^\| \*\*.*?(?= \| )", DESIGN, re.MULTILINE)))
    assert len(words) > 40 and len(words) == len(set(words))


def test_the_readme_is_at_most_two_screens():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100


def test_the_checks_see_something():
    readme = ROOT / "README.md"
    assert len(list(commands_of(readme, "gridbench"))) > 10
    assert len(list(commands_of(ROOT / "docs" / "measuring.md", "python -m workloads"))) > 10
    assert Path(__file__).is_relative_to(ROOT)


def test_a_block_of_commands_is_distinguished_from_printed_output(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```\nfirst\n```\nprints\n```text\nwords\n```\nthen\n```\nsecond  # why\n```\n")
    assert block_of(page, "first") == ["first"] and block_of(page, "second") == ["second"]
