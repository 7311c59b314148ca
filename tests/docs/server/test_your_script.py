import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.shown import DOCS
from tests.emulators.newcomer import Shell
from tests.exit_codes import assert_measured
from workloads.harness.records.record import Record

PAGE = (DOCS / "your-script.md").read_text()
BLOCKS = re.findall(r"^```([a-z]*)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
COMMANDS = [line for language, lines in BLOCKS if not language for line in lines.splitlines()]
PLANNED = [command for command in COMMANDS if "--dry-run" in command]
MEASURED = [command for command in COMMANDS if command.startswith("gridbench") and command not in PLANNED]


def block(language):
    return next(text for each, text in BLOCKS if each == language)


@pytest.fixture
def shell(tmp_path):
    """A terminal in a reader's repository: the page's script, suite, packages and data."""
    code = tmp_path / "code"
    (code / "pictures").mkdir(parents=True)
    (code / "train.py").write_text(block("python"))
    (code / "my-training.toml").write_text(block("toml").replace("repeats = 3", "repeats = 1\nquick = true"))
    (code / "requirements.txt").write_text("packaging\n")
    subprocess.run(["git", "init", "--quiet", str(code)], check=True)
    return Shell(tmp_path, {}, code)


def results_of(shell):
    return Path(shell.environment["GRIDBENCH_RESULTS"])


@pytest.mark.flaky(
    reruns=2,
    reason="a job is predicted from more steps than a brief look may have time for on a busy machine",
)
def test_one_record_is_made_here(shell):
    (command,) = [command for command in COMMANDS if command.startswith("python")]
    code, out = shell(command.replace(" -- ", " --brief -- "))  # whose seconds are those of the steps
    record = Record.from_json((shell.checkout / "record.json").read_text())
    assert record.script.command == ("train.py",) and record.script.optimizers == ("AdamW",), out
    assert code == (0 if record.ok else 1) and len(record.script.losses) > 10
    assert "a step: AdamW's; 1 backward call; 32 samples from the training loader" in out
    assert "a step goes to: " in out and (record.script.job or not record.ok)
    assert not record.script.job or "for 10,000 steps" in out


@pytest.mark.parametrize("command", PLANNED)
def test_a_plan_is_printed_and_nothing_runs(shell, command):
    code, out = shell(command)
    assert code == 0, out
    assert (
        "The script train" in out and "repeats each" in out and not list(results_of(shell).glob("*/records"))
    )


@pytest.mark.chaos
@pytest.mark.parametrize("command", MEASURED)
def test_a_run_ends_with_a_report_on_the_job(shell, command):
    code, out = shell(command.replace(" -- ", " --repeats 1 -- ") if " -- " in command else command)
    assert_measured(code, out)
    (page,) = results_of(shell).glob("*/report.html")
    assert 'id="script"' in page.read_text()
    results = json.loads((page.parent / "benchmark_results.json").read_text())
    sizes = {row["case"]["id"] for row in results["rows"]}
    assert len(sizes) == 2 and {row["hardware"] for row in results["rows"]} == {"local-cpu-1", "local-cpu"}
    counted = [row for row in results["rows"] if row["grade"] != "refused"]
    assert len(results["findings"]["job"]["rows"]) == len(counted)
    assert not counted or "10,000 steps" in " ".join(results["details"])


def test_the_page_shows_each_of_the_ways():
    assert len(PLANNED) == 4 and len(MEASURED) == 2 and len(COMMANDS) == 7
