"""Any program's command as cases of a suite: its tables `[[commands]]`, read strictly."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from workloads.harness.records.case import Case
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.program import (
    EXAMPLE,
    LEFT,
    LOADER,
    MOST_METRICS,
    PORT,
    SEED,
    Metric,
    Program,
    Serving,
    metric_of,
)
from workloads.harness.records.script import PLACE, Script
from workloads.harness.records.secret_names import is_secret_variable
from workloads.harness.repeat.scripts import (
    case_name,
    cases_of,
    check_program,
    code_folder,
    data_in,
    folder_in,
    image_in,
    packages_in,
    placed,
    split,
)
from workloads.harness.repeat.tables import check_keys, choices_of

KEYS = {
    **dict.fromkeys(("name", "run", "folder", "packages", "data", "keep", "image", "device"), str),
    **{"size": dict, "metrics": list, "env": dict, "warm_ups": int, "threads": int, "estimate_s": float},
    **{"serve": str, "ready": str, "ready_timeout_s": float, "slo": dict, "load": dict},
}
OF_SERVER = ("ready", "ready_timeout_s", "slo", "load")  # keys that need the key serve
READY, READY_TIMEOUT_S = "http://127.0.0.1:{port}/health", 600.0
COMPLETIONS = "/v1/completions"
LOADED = ("output tokens/s: json output_tokens_per_s", "requests/s: json requests_per_s")
MOST_WARM_UPS = 100
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_ADDRESS = re.compile(r"https?://[^/?#\s]+")
_SECRET = re.compile(r"(?i)(^|_)(key|token|secret|password|passwd|pass|pwd|credentials?|auth)($|_)")


def command_cases(entry: Any, here: Path) -> list[tuple[Case, Script]]:
    """Return a table's cases with their commands; relative paths start at `here`."""
    check_keys(entry, KEYS, "a command")
    serving = serving_of(entry)
    words = tuple(split(entry.get("run", ""))) or (load_of(entry, serving) if serving else ())
    if not words or not words[0].strip():
        raise WorkloadsError('a command lacks the key run, such as run = "./simulate --cells {cells}"')
    folder = code_folder(entry, here)
    programs = [serving.command, words] if serving else [words]
    for program in programs:
        if "/" in program[0] and not Path(program[0]).is_absolute():
            check_program(program, folder)
    name, choices = case_name(entry, Path(programs[0][0]).stem), choices_of(entry.get("size", {}))
    variables = variables_of(entry.get("env", {}))
    texts = [*(word for program in programs for word in program), *(value for _, value in variables)]
    filled_here = (SEED, PORT, LEFT) if serving else (SEED,)
    sizes = {place: choices[place] for place in placed(texts, choices, "data" in entry, filled_here)}
    if (warm_ups := entry.get("warm_ups", 0)) > MOST_WARM_UPS:
        raise WorkloadsError(f"warm_ups={warm_ups} must be at most {MOST_WARM_UPS}")
    metrics = entry.get("metrics") or (LOADED if words[:2] == LOADER else [])
    script = Script(
        command=words,
        folder=str(folder),
        packages=packages_in(entry.get("packages"), folder),
        data=data_in(entry.get("data"), here),
        keep=folder_in(entry.get("keep"), here),
        image=image_in(entry.get("image")),
        program=Program(metrics_of(metrics), warm_ups, variables, serving),
    )
    cases = cases_of(name, sizes)
    check_load(words, cases)
    return [(case, script) for case in cases]


def server_table(
    serve: str | None,
    ready: str | None,
    ready_timeout_s: float | None,
    slo: Sequence[str],
    load: Sequence[str],
) -> dict[str, Any]:
    """Return a server's keys in a command's table, from options such as `ttft_p99_ms=500`."""
    given = {
        "serve": serve,
        "ready": ready,
        "ready_timeout_s": ready_timeout_s,
        "slo": pairs_of(slo, "slo", "ttft_p99_ms=500"),
        "load": pairs_of(load, "load", "prompt_tokens=128-512"),
    }
    return {key: value for key, value in given.items() if value}


def serving_of(entry: Mapping[str, Any]) -> Serving | None:
    if "serve" not in entry:
        if alone := [key for key in OF_SERVER if key in entry]:
            raise WorkloadsError(
                f'{alone[0]} is given without serve; give the server, such as serve = "vllm serve … --port {{port}}"'
            )
        return None
    words, ready = tuple(split(entry["serve"])), entry.get("ready", READY)
    if not words or not words[0].strip():
        raise WorkloadsError('serve is empty; give the server, such as serve = "vllm serve … --port {port}"')
    if not _ADDRESS.match(ready):
        raise WorkloadsError(f"ready is {ready!r}; give an address of the machine, such as {READY}")
    texts = [*words, ready]
    if any(f"{{{PORT}}}" in text for text in texts) and not all(
        any(f"{{{PORT}}}" in text for text in side) for side in (words, [ready])
    ):
        raise WorkloadsError(
            f"serve and ready must both have {{{PORT}}}, or neither: serve is {entry['serve']!r}"
        )
    return Serving(words, ready, float(entry.get("ready_timeout_s", READY_TIMEOUT_S)))


def load_of(entry: Mapping[str, Any], serving: Serving) -> tuple[str, ...]:
    from workloads.serving.__main__ import words_of

    load = {"seed": f"{{{SEED}}}", "search_seconds": f"{{{LEFT}}}", **entry.get("load", {})}
    match = _ADDRESS.match(serving.ready)
    path = load.pop("path", COMPLETIONS)
    if not match or not isinstance(path, str) or not path.startswith("/"):
        raise WorkloadsError(f"path in load is {path!r}; give that of the API, such as {COMPLETIONS}")
    try:
        return (*LOADER, *words_of(match[0] + path, entry.get("slo", {}), load))
    except ValueError as error:
        raise WorkloadsError(str(error)) from None


def check_load(words: Sequence[str], cases: Sequence[Case]) -> None:
    if words[:2] != LOADER:
        return
    from workloads.serving.__main__ import check_words

    for case in cases:
        values = {name: str(value) for name, value in case.size}
        try:
            check_words([PLACE.sub(partial(_value_of, values), word) for word in words[2:]])
        except ValueError as error:
            raise WorkloadsError(str(error)) from None


def _value_of(values: Mapping[str, str], place: re.Match[str]) -> str:
    return values.get(place[1], "1")


def pairs_of(texts: Sequence[str], what: str = "env", example: str = "OMP_NUM_THREADS=8") -> dict[str, str]:
    """Read variables such as `OMP_NUM_THREADS=8`."""
    if wrong := [text for text in texts if "=" not in text]:
        raise WorkloadsError(f"{what} {wrong[0]!r} is not of the form NAME=VALUE, such as {example}")
    return {name: value for name, _, value in (text.partition("=") for text in texts)}


def metrics_of(texts: Sequence[Any]) -> tuple[Metric, ...]:
    if not all(isinstance(text, str) for text in texts):
        raise WorkloadsError(f"metrics is {list(texts)!r}, expected a list of texts, such as {EXAMPLE}")
    metrics = {metric.name: metric for metric in map(metric_of, texts)}
    if len(metrics) < len(texts) or len(texts) > MOST_METRICS:
        raise WorkloadsError(f"metrics must be at most {MOST_METRICS}, with different names")
    return tuple(metrics.values())


def variables_of(given: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return variables of a command's process; a secret's name is refused."""
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
