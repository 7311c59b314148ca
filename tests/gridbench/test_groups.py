import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from gridbench.main import COMMANDS, GROUPS, app, load

COMMAND_LINES = (
    *(
        "run",
        "resume",
        "report",
        "show",
        "import",
        "compare",
        "site",
        "history",
        "gate",
        "bisect",
        "alert",
        "reference",
    ),
    *("check", "prices list", "prices refresh", "pool", "image build", "image push", "ssh check"),
    *("up", "up aws", "up gke", "status aws", "status gke", "down aws", "down gke"),
    *("lambda rented", "lambda give-back", "lambda janitor", "doctor"),
)

HEAVY = {"prefect", "torch", "pandas", "boto3", "altair", "kubernetes_asyncio", "asyncssh", "httpx"}


def call(*words):
    return CliRunner().invoke(app, words, env={"TERMINAL_WIDTH": "100", "COLUMNS": "100"})


def panels(text):
    """Return the names of commands below each panel of a help text."""
    groups = {}
    for line in text.splitlines():
        if title := re.match(r"╭─ (.+?) ─+╮", line):
            groups[title[1]] = names = []
        elif command := re.match(r"│ ([a-z-]+) ", line):
            names.append(command[1])
    return groups


def test_help_shows_the_groups_and_their_commands_in_order():
    shown = panels(call("--help").stdout)
    assert {title: names for title, names in shown.items() if title != "Options"} == {
        "Measure": ["run", "train", "command", "fits", "predict", "resume", "confirm"],
        "Read results": ["show", "report", "import", "compare", "site", "history"],
        "Watch for regressions": ["gate", "bisect", "alert", "reference"],
        "Judge published numbers": ["check", "prices", "offers"],
        "Machines": ["up", "status", "down", "lambda", "ssh", "image", "pool"],
        "Diagnose": ["doctor"],
    }
    assert list(shown)[1:] == list(GROUPS)


@pytest.mark.parametrize("words", COMMAND_LINES)
def test_every_command_has_its_help(words):
    shown = call(*words.split(), "--help")
    assert shown.exit_code == 0 and f" {words} " in " ".join(shown.stdout.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_the_first_line_of_each_help(name):
    assert (load(name).help or "").splitlines()[0] == COMMANDS[name][1].help


def test_an_unknown_command_is_named_with_a_similar_command():
    shown = call("doctr")
    assert shown.exit_code == 2 and "doctr" in shown.output and "doctor" in shown.output


@pytest.mark.parametrize("words", ["--help", "run --help", "check --help", "prices list --help"])
def test_help_imports_neither_prefect_nor_drawing_nor_computing_libraries(words):
    code = f"import sys; from gridbench.main import app; app({words.split()!r}, standalone_mode=False)"
    script = f"{code}\nprint(sorted(set(sys.modules) & {HEAVY!r}), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
