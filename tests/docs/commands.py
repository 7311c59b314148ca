"""Write docs/commands.md, the help texts of every command: `python -m tests.docs.commands --write`.

The texts have one width and no colours, so that the page never depends on the terminal.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from gridbench.main import GROUPS, app
from tasks.planning.hardware import hardware_names, suites

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "commands.md"
WIDTH = 100  # columns of a help text
LISTS = (  # files that the help lists: a new one must not change this page
    (hardware_names(), "the files of deployments/hardware/"),
    (suites(), "the files of deployments/suites/"),
)
HEAD = """# Commands

The help text of every command. This page is generated: `python -m tests.docs.commands --write`.
"""
TORCH_ONLY = """## On a box with nothing but torch

`python -m workloads` needs torch, numpy and psutil, and no Prefect.
"""


def page() -> str:
    program: Any = get_command(app)
    parts = [HEAD]
    for group, names in GROUPS.items():
        parts.append(f"## {group}\n")
        for name in names:
            parts += sections(program.commands[name], f"gridbench {name}")
    return "\n".join([*parts, TORCH_ONLY, *workloads_sections()])


def sections(command: Any, words: str) -> Iterator[str]:
    """Yield a section for a command and each command below it."""
    yield section(words, help_text(command, words))
    for name, below in getattr(command, "commands", {}).items():
        yield from sections(below, f"{words} {name}")


def section(words: str, text: str) -> str:
    return f"### {words}\n\n```text\n{text}\n```\n"


def help_text(command: Any, words: str) -> str:
    command.rich_markup_mode = None  # boxes and colours are for terminals
    for parameter in command.params:
        for names, folder in LISTS:
            parameter.help = (parameter.help or "").replace(", ".join(names), folder) or None
    context = command.context_class(command, info_name=words, terminal_width=WIDTH, max_content_width=WIDTH)
    return "\n".join(line.rstrip() for line in command.get_help(context).splitlines()).strip()


def workloads_sections() -> Iterator[str]:
    whole = workloads_help()
    yield section("python -m workloads", whole)
    for name in re.findall(r"^    (\w+)", whole, re.MULTILINE):
        yield section(f"python -m workloads {name}", workloads_help(name))
    yield section("python -m workloads suite loadtest", workloads_help("suite", "loadtest"))


def workloads_help(*words: str) -> str:
    environment = os.environ | {"COLUMNS": str(WIDTH), "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "workloads", *words, "--help"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page())
    else:
        print(page(), end="")
