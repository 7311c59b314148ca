"""`gridbench --help` shows the commands in groups, and every name that scripts may use still works."""

import re

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from gridbench.main import GROUPS, OLD_NAMES, app

BEFORE = (  # every command that there ever was
    *(
        "run",
        "resume",
        "report",
        "show",
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
    *("rented", "give-back", "janitor", "doctor"),
)


def call(*words):
    return CliRunner().invoke(app, words, env={"TERMINAL_WIDTH": "100", "COLUMNS": "100"})


def panels(text):
    """The names of commands below each panel of a help text."""
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
        "Measure": ["run", "train", "fits", "resume"],
        "Read results": ["show", "report", "compare", "site", "history"],
        "Watch for regressions": ["gate", "bisect", "alert", "reference"],
        "Judge published numbers": ["check", "prices"],
        "Machines": ["up", "status", "down", "lambda", "ssh", "image", "pool"],
        "Diagnose": ["doctor"],
    }
    assert list(shown)[1:] == list(GROUPS)


@pytest.mark.parametrize("words", BEFORE)
def test_every_name_there_ever_was_still_runs(words):
    shown = call(*words.split(), "--help")
    assert shown.exit_code == 0 and f" {words} " in " ".join(shown.stdout.split())


@pytest.mark.parametrize("name", OLD_NAMES)
def test_an_old_name_is_hidden_and_does_what_its_new_one_does(name, monkeypatch):
    monkeypatch.delenv("LAMBDA_API_KEY", raising=False)
    program = get_command(app)
    assert program.commands[name].hidden and not program.commands["lambda"].commands[name].hidden
    words = ["--all"] if name == "give-back" else []
    old, new = call(name, *words), call("lambda", name, *words)
    assert type(old.exception) is type(new.exception) and str(old.exception) == str(new.exception)
    assert "needs a key: set LAMBDA_API_KEY" in str(old.exception)
