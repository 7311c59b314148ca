"""Commands of any program as cases of a suite: its tables `[[commands]]`, read strictly."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workloads.harness.records.case import Case
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.program import EXAMPLE, MOST_METRICS, SEED, Metric, Program, metric_of
from workloads.harness.records.script import Script
from workloads.harness.records.secret_names import is_secret_variable
from workloads.harness.repeat.scripts import (
    case_name,
    cases_of,
    check_program,
    code_folder,
    data_in,
    folder_in,
    packages_in,
    placed,
    split,
)
from workloads.harness.repeat.tables import check_keys, choices_of

KEYS = {
    **dict.fromkeys(("name", "run", "folder", "packages", "data", "keep", "device"), str),
    **{"size": dict, "metrics": list, "env": dict, "warm_ups": int, "threads": int, "estimate_s": float},
}
MOST_WARM_UPS = 100
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_SECRET = re.compile(r"(?i)(^|_)(key|token|secret|password|passwd|pass|pwd|credentials?|auth)($|_)")


def command_cases(entry: Any, here: Path) -> list[tuple[Case, Script]]:
    """Return each case of a table, with its command; paths in it count from the folder `here`.

    Raises:
        WorkloadsError: the table has a mistake; the sentence names key and value.
    """
    check_keys(entry, KEYS, "a command")
    words = tuple(split(entry.get("run", "")))
    if not words or not words[0].strip():
        raise WorkloadsError('a command lacks the key run, such as run = "./simulate --cells {cells}"')
    folder = code_folder(entry, here)
    if "/" in words[0] and not Path(words[0]).is_absolute():
        check_program(words, folder)
    name, choices = case_name(entry, Path(words[0]).stem), choices_of(entry.get("size", {}))
    variables = variables_of(entry.get("env", {}))
    texts = [*words, *(value for _, value in variables)]
    sizes = {place: choices[place] for place in placed(texts, choices, "data" in entry, (SEED,))}
    if (warm_ups := entry.get("warm_ups", 0)) > MOST_WARM_UPS:
        raise WorkloadsError(f"warm_ups={warm_ups} must be at most {MOST_WARM_UPS}")
    script = Script(
        command=words,
        folder=str(folder),
        packages=packages_in(entry.get("packages"), folder),
        data=data_in(entry.get("data"), here),
        keep=folder_in(entry.get("keep"), here),
        program=Program(metrics_of(entry.get("metrics", [])), warm_ups, variables),
    )
    return [(case, script) for case in cases_of(name, sizes)]


def pairs_of(texts: Sequence[str]) -> dict[str, str]:
    """Read variables such as `OMP_NUM_THREADS=8`.

    Raises:
        WorkloadsError: one has another form.
    """
    if wrong := [text for text in texts if "=" not in text]:
        raise WorkloadsError(f"env {wrong[0]!r} is not of the form NAME=VALUE, such as OMP_NUM_THREADS=8")
    return {name: value for name, _, value in (text.partition("=") for text in texts)}


def metrics_of(texts: Sequence[Any]) -> tuple[Metric, ...]:
    """Read metrics with different names.

    Raises:
        WorkloadsError: one has a mistake, two have one name, or there are too many.
    """
    if not all(isinstance(text, str) for text in texts):
        raise WorkloadsError(f"metrics is {list(texts)!r}, expected a list of texts, such as {EXAMPLE}")
    metrics = {metric.name: metric for metric in map(metric_of, texts)}
    if len(metrics) < len(texts) or len(texts) > MOST_METRICS:
        raise WorkloadsError(f"metrics must be at most {MOST_METRICS}, with different names")
    return tuple(metrics.values())


def variables_of(given: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return variables of a command's process, none of which is a secret by its name.

    Raises:
        WorkloadsError: a name is malformed or that of a secret, or a value is not text.
    """
    for name, value in given.items():
        if not _VARIABLE.fullmatch(name) or not isinstance(value, str) or "\0" in value:
            raise WorkloadsError(
                f'env has {name} = {value!r}; give texts by name, such as OMP_NUM_THREADS = "8"'
            )
        if is_secret_variable(name) or _SECRET.search(name):
            raise WorkloadsError(
                f"env has {name}, which looks like a secret: plans and records are not secret, so set it on the machine"
            )
    return tuple(given.items())
