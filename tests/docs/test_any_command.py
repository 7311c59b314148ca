import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.docs.shown import DOCS
from workloads.harness.records.program import metric_of
from workloads.harness.records.record import Record
from workloads.harness.repeat.commands import command_cases, server_table
from workloads.harness.script.metrics import value_of

PAGE = (DOCS / "any-command.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.M | re.S)
EXAMPLES = [
    (shlex.split(command.replace("\\\n", " ")), output)
    for (_, command), (kind, output) in pairwise(BLOCKS)
    if kind == "text"
]


def given(words, option):
    return [value for name, value in pairwise(words) if name == option]


def test_the_page_has_five_examples():
    assert len(EXAMPLES) == 5


@pytest.mark.parametrize(
    ("words", "output"), EXAMPLES, ids=lambda value: value[-1] if isinstance(value, list) else ""
)
def test_the_metrics_of_an_example_are_in_its_output(words, output):
    metrics = list(map(metric_of, given(words, "--metric")))
    for metric in metrics:
        assert value_of(metric, (output, ""), str).value > 0
    assert metrics and "--on" in words and words.index("--") < len(words) - 1


def test_the_table_of_a_suite_is_read(tmp_path):
    text, _ = [text for kind, text in BLOCKS if kind == "toml"]
    (tmp_path / "simulate").write_text("")
    (entry,) = tomllib.loads(text)["commands"]
    assert [case.id for case, _ in command_cases(entry, tmp_path)] == [
        "simulate/cells=1000/own",
        "simulate/cells=1000000/own",
    ]


def test_servers_are_described_alike_in_a_command_and_in_a_suite(tmp_path):
    (tmp_path / "requirements.txt").write_text("")
    _, text = [text for kind, text in BLOCKS if kind == "toml"]
    ours, others = [shlex.split(text.replace("\\\n", " ")) for _, text in BLOCKS if "--serve" in text]
    (entry,) = tomllib.loads(text)["commands"]
    table = server_table(*given(ours, "--serve"), None, None, given(ours, "--slo"), given(ours, "--load"))
    (_, by_suite), (_, by_command) = (*command_cases(entry, tmp_path), *command_cases(table, tmp_path))
    assert (
        set(by_command.command) < set(by_suite.command)
        and len(by_suite.command) == len(by_command.command) + 1
    )
    assert by_suite.program.serving == replace(by_command.program.serving, ready_timeout_s=900)
    client = {"run": shlex.join(others[others.index("--") + 1 :]), "metrics": given(others, "--metric")}
    (case, script), *_ = command_cases(
        client | server_table(*given(others, "--serve"), None, None, [], []), tmp_path
    )
    assert case.id == "vllm/own" and script.program.serving == by_command.program.serving


@pytest.mark.skipif(not shutil.which("cc"), reason="no compiler here")
def test_the_compiled_program_runs(tmp_path):
    words, _ = EXAMPLES[-1]
    (source,) = [text for kind, text in BLOCKS if kind == "c"]
    (tmp_path / "pi.c").write_text(source)
    options = [word for metric in given(words, "--metric") for word in ("--metric", metric)]
    command = words[words.index("--") :]
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "workloads",
            "command",
            *options,
            "--warm-ups=1",
            "--size=terms=10000",
            f"--folder={tmp_path}",
            *command,
        ],
        stdout=subprocess.PIPE,
        text=True,
        timeout=100,
    )
    record = Record.from_json(ran.stdout)
    assert [metric.name for metric in record.metrics] == ["terms/s", "error"]
    assert record.metrics[1].value == pytest.approx(1e-4, rel=0.1) and not (tmp_path / "pi").exists()
