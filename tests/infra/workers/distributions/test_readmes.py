import re
from typing import get_args

import pytest

from infra.workers.base.outcome import JobOutcome, StateName
from infra.workers.batch.configuration import BatchJobFields
from infra.workers.batch.worker import AwsBatchWorker
from infra.workers.distributions.layout import DISTRIBUTIONS, WORKERS
from infra.workers.ssh.configuration import SshJobFields
from infra.workers.ssh.worker import SshWorker
from tests.infra.workers.distributions.clean import brand_of

SSH, BATCH = DISTRIBUTIONS
WORKER = {SSH: SshWorker, BATCH: AwsBatchWorker}
FIELDS = {SSH: SshJobFields, BATCH: BatchJobFields}
SHARED = {"env", "labels", "command"}  # of every job variable form; the rest is Prefect's own
EACH = pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=lambda distribution: distribution.name)


def readme(distribution):
    return (distribution.project / "README.md").read_text()


def section(distribution, title):
    """Return the rows of the table below a heading: the code of the first cell, and the other cells."""
    text = readme(distribution).partition(f"## {title}\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return [(re.findall(r"`([^`]+)`", first), rest) for first, *rest in rows]


def ends_of(distribution):
    folder = WORKERS / distribution.folder
    text = "".join(path.read_text() for path in folder.rglob("*.py"))
    return {name for name in get_args(StateName) if f'"{name}"' in text} - {"Exited"} | {
        "Crashed",
        "Cancelled",
    }


@EACH
def test_every_job_variable_is_reported_with_its_default(distribution):
    named = {name for names, _ in section(distribution, "Job variables") for name in names}
    fields = FIELDS[distribution].model_fields
    assert named - {"if-not-present", "always", "never", "stream"} >= {*fields, *SHARED}
    for names, rest in section(distribution, "Job variables"):
        default = fields[names[0]].default if names[0] in fields else None
        if isinstance(default, int) and len(names) == 1:
            assert rest[-1] == str(default).lower(), names


@EACH
def test_every_end_has_its_name_and_its_outcome(distribution):
    rows = {names[0]: rest for names, rest in section(distribution, "How a flow run ends")}
    assert set(rows) == ends_of(distribution)
    for name, (_, outcome) in rows.items():
        assert outcome == f"`{JobOutcome(name, '').cause.value}`", name
    assert f"{brand_of(distribution).name}.outcome" in readme(distribution)


@EACH
def test_every_setting_is_reported_with_its_default(distribution):
    settings = WORKER[distribution].settings_type
    prefix = settings.model_config["env_prefix"]
    rows = {names[0]: rest[-1] for names, rest in section(distribution, "Settings of the worker")}
    fields = {f"{prefix}{name.upper()}": field.default for name, field in settings.model_fields.items()}
    assert {name: str(default) for name, default in fields.items()}.items() <= rows.items()
    assert rows.keys() - fields.keys() <= {f"{prefix}LOOPBACK_API"}


@EACH
def test_the_commands_are_of_its_name_and_type(distribution):
    text, kind = readme(distribution), WORKER[distribution].type
    assert text.startswith(f"# {distribution.name}\n")
    assert f"pip install {distribution.name}\n" in text
    assert re.search(rf"^prefect work-pool create \w+ --type {kind}$", text, re.MULTILINE)
    assert f"from {distribution.package}.decorators import {kind.replace('-', '_')}\n" in text


@EACH
def test_the_python_that_it_shows_is_python(distribution):
    blocks = re.findall(r"```python\n(.*?)```", readme(distribution), re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        compile(block, distribution.name, "exec")
