import sys

import pytest
import typer

from gridbench import main
from gridbench.machines import aws as commands
from gridbench.setup import note
from infra.aws import stack as stacks


@pytest.fixture
def run(aws, capsys, monkeypatch, tmp_path):
    """Run a command, `up` for the stack alone; return its exit code and output on one line."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(note, "STATE", tmp_path / "state")
    monkeypatch.setattr(stacks, "POLL_S", 0.02)
    program = typer.Typer(pretty_exceptions_enable=False)
    for name, command in (
        ("up", commands.up_aws),
        ("status", commands.status_aws),
        ("down", commands.down_aws),
    ):
        program.command(name)(command)
    monkeypatch.setattr(main, "app", program)

    def go(*words):
        alone = ["--stack-only"] if words[0] == "up" else []
        monkeypatch.setattr(sys, "argv", ["gridbench", *words, *alone])
        code = 0
        try:
            main.main()
        except SystemExit as ended:
            code = ended.code or 0
        return code, " ".join("".join(capsys.readouterr()).split())

    return go
