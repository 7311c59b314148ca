import re
import sys
from pathlib import Path

import pytest

from gridbench import main
from gridbench.run import command
from gridbench.watch import history
from tests.golden import assert_golden
from tests.gridbench.watch.test_gate import FEW, GOOD, SLOW, a_run
from tests.tasks.examples.nights import a_night, run_name
from tests.tasks.examples.records import MATMUL

GOLDEN = Path(__file__).with_name("golden")


@pytest.fixture
def printed(monkeypatch, capsys):
    """Run a command at a width of 100 columns; return its output."""
    monkeypatch.setattr(history.console, "_width", 100)
    for variable in ("COLUMNS", "TERMINAL_WIDTH"):
        monkeypatch.setenv(variable, "100")

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["gridbench", *map(str, words)])
        with pytest.raises(SystemExit):
            main.main()
        return "".join(capsys.readouterr())

    return run


def test_the_list_of_commands(printed):
    text = re.sub(r"Usage: .* \[OPTIONS\]", "Usage: gridbench [OPTIONS]", printed("--help"))
    assert_golden(text, GOLDEN / "help.txt")


@pytest.mark.parametrize(("page", "number"), [("gate", SLOW), ("gate-undecided", FEW)])
def test_a_run_gate_is_printed_as_in_the_golden_file(printed, tmp_path, page, number):
    a_run(tmp_path, GOOD)
    a_run(tmp_path, number, 1.1 if number == SLOW else 1.0, repeats=1 if number == FEW else 3)
    text = printed("gate", run_name(number), "--against", run_name(GOOD), "--results", tmp_path)
    assert_golden(text, GOLDEN / f"{page}.txt")


def test_a_history_is_printed_as_in_the_golden_file(printed, tmp_path):
    for night in range(3):
        a_night(tmp_path, night)
    assert_golden(printed("history", MATMUL.id, "--results", tmp_path), GOLDEN / "history.txt")


def test_a_checked_table_is_printed_as_in_the_golden_file(printed):
    table = Path(__file__).parents[2] / "docs" / "examples" / "aws-blog-table.csv"
    assert_golden(printed("check", table), GOLDEN / "check.txt")


def test_a_plan_above_its_budget(printed, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "price_notes", lambda machines: [])  # they say how old a price is today
    suite = tmp_path / "mine.toml"
    suite.write_text('title = "Two sizes"\n[[cases]]\nworkload = "matmul"\nsize = { n = [512, 200000] }\n')
    machines = ("--on", "aws-g5.xlarge", "--on", "aws-c5.2xlarge", "--budget-usd", "0.01")
    assert_golden(printed("run", suite, "--dry-run", *machines), GOLDEN / "plan.txt")
