"""The load test: a suite with its own options, results file and log."""

import argparse
import json
import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from workloads.harness.probes.machine import fingerprint
from workloads.harness.records.case import Case
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.files import make_folder, write_record, write_text
from workloads.harness.records.record import Record
from workloads.harness.records.repeat import Repeat
from workloads.harness.registry import find
from workloads.harness.repeat.exclusive import WAITING
from workloads.harness.repeat.series import measure_repeats, shuffled
from workloads.harness.repeat.suite import Suite
from workloads.loadtest.report import LoadTest, Run, document, summary, words

NAME = "loadtest"
OWN = ("num_epochs", "num_batches", "num_workers", "output", "log_file", "metrics_sample_rate")
QUICK = {  # size of each workload, without the number of loader processes
    "simple_cnn_train_job": {"batch": 16, "epochs": 1, "batches": 10},
    "simple_cnn_infer_job": {"batch": 32, "batches": 50},
}
SAMPLE_RATE_S = 5.0
FINEST_S = 0.25  # the monitor's own interval
ASK_TORCH = """
import json, torch
count = torch.cuda.device_count() if torch.cuda.is_available() else 0
names = [torch.cuda.get_device_name(number) for number in range(count)]
print(json.dumps([torch.__version__, torch.version.cuda, names]))
"""


def is_meant(options: argparse.Namespace, suite: Suite) -> bool:
    """Return whether a suite is the load test.

    Raises:
        WorkloadsError: another suite has an option of the load test.
    """
    if suite.name == NAME:
        return True
    if given := [name for name in OWN if getattr(options, name) is not None]:
        flag = f"--{given[0].replace('_', '-')}"
        raise WorkloadsError(f"{flag} is only for the suite {NAME}; {suite.name} has its sizes in its file")
    return False


def run(options: argparse.Namespace, suite: Suite, base: Repeat) -> int:
    """Run the load test with the settings of `base`; return 0 if all succeeded, else 1.

    Raises:
        WorkloadsError: the options contradict each other, or the output is not writable.
    """
    tests = planned(options, suite)
    output = options.output or Path(f"loadtest_results_{datetime.now():%Y%m%d_%H%M%S}.json")
    check_writable(output)
    if options.out:
        make_folder(options.out)
    with logged(options.log_file) as log:
        system = system_info()
        device = options.device or ("cuda" if system["gpu_names"] else "cpu")
        log.info("%d tests on %s, results in %s", len(tests), device, output)
        interval_s, count = options.metrics_sample_rate or SAMPLE_RATE_S, options.repeats or suite.repeats
        results = Run(tests, system, interval_s, count, started_s=time.time())
        todo = repeats(replace(base, device=device), suite, tests, count)
        _measure_all([*todo], results, output, options.out, log)
        print(summary(results))
        log.info("results are in %s", output)
    return int(results.failed)


def planned(options: argparse.Namespace, suite: Suite) -> list[LoadTest]:
    """Return the tests that the options select, in the order of the results.

    Raises:
        WorkloadsError: --quick is combined with other sizes, or there is no test.
    """
    chosen = {"epochs": options.num_epochs, "batches": options.num_batches, "workers": options.num_workers}
    if options.quick:
        if options.num_epochs is not None or options.num_batches is not None:
            raise WorkloadsError(
                "--quick sets its own epochs and batches; leave out either --quick or --num-epochs and --num-batches"
            )
        cases = [find(name).case(size | {"workers": 0}) for name, size in QUICK.items()]
    else:
        cases = _jobs(suite)
    tests = []
    for case in cases:
        sizes = {name: value for name, value in chosen.items() if value is not None and name in case.params}
        resized = Case.of(case.workload, case.params | sizes, case.precision, case.mode)
        tests.append(LoadTest.of(resized))
    if not tests:
        raise WorkloadsError(f"suite {suite.name} has no whole job of a training or an inference")
    return tests


def _jobs(suite: Suite) -> list[Case]:
    return [case for case in suite.cases if find(case.workload).kind == "job"]


def repeats(base: Repeat, suite: Suite, tests: Sequence[LoadTest], count: int) -> Iterator[Repeat]:
    """Yield each test and its computation alone, shuffled, with timeouts in proportion to their sizes."""
    base = replace(base, threads=base.threads or suite.threads, quick=base.quick or suite.quick)
    usual = {test.name: test for test in map(LoadTest.of, _jobs(suite))}
    more = {test.job: test.iterations / usual.get(test.name, test).iterations for test in tests}
    cases = dict.fromkeys(case for test in tests for case in (test.job, test.alone))
    for repeat in shuffled([*cases], base, count, suite.profile):
        yield replace(repeat, timeout_s=suite.timeout_s * max(more.get(repeat.case, 1.0), 1.0))


def _measure_all(
    todo: Sequence[Repeat], results: Run, output: Path, folder: Path | None, log: logging.Logger
) -> None:
    """Measure the repeats as a suite does, writing the results after each."""

    def say(text: str) -> None:  # only the wait for the box is shown on standard error
        log.log(logging.INFO if text == WAITING else logging.DEBUG, "%s", text)

    def keep(record: Record) -> None:
        results.records.append(record)
        _write(results, output)
        if folder:
            write_record(folder, record)
        log.info("%s", words(results, record))
        _debug(record, log)

    for repeat in todo:
        log.debug("planned: python -m workloads %s", " ".join(repeat.options()))
    try:
        measure_repeats(todo, say, keep)
    except KeyboardInterrupt:
        if results.records:  # the last one might not be written yet
            _write(results, output)
            log.info("interrupted; the results so far are in %s", output)
        raise


def _write(results: Run, output: Path) -> None:
    write_text(output, json.dumps(document(results), indent=2, allow_nan=False) + "\n")


def _debug(record: Record, log: logging.Logger) -> None:
    log.debug("%s: verdict %s after %.3f s", record.id, record.verdict.value, record.wall_s)
    for text in record.reasons:
        log.debug("%s: because %s", record.id, text)
    for name, seconds in record.phases_s.items():
        log.debug("%s: phase %s took %.4f s", record.id, name, seconds)
    for name, reason in record.missing.items():
        log.debug("%s: no %s: %s", record.id, name, reason)


@contextmanager
def logged(path: Path | None) -> Iterator[logging.Logger]:
    """Log events to standard error, and all details with their times to a file.

    Raises:
        WorkloadsError: the file is not writable.
    """
    log = logging.Logger(NAME, logging.DEBUG)
    console = logging.StreamHandler(sys.stderr)
    console.setLevel(logging.INFO)
    log.addHandler(console)
    file = None
    if path:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = logging.FileHandler(path)
        except OSError as error:
            raise WorkloadsError(f"--log-file {path} can't be written ({error.strerror})") from None
        file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        log.addHandler(file)
    try:
        yield log
    finally:
        if file:
            file.close()


def check_writable(path: Path) -> None:
    """Check that a file is writable.

    Raises:
        WorkloadsError: it is not.
    """
    if path.is_dir():
        raise WorkloadsError(f"--output {path} is a folder; name a file in it")
    make_folder(path.parent)
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", suffix=".part"):
            pass
    except OSError as error:
        raise WorkloadsError(f"--output {path} can't be written ({error.strerror})") from None


def system_info() -> dict[str, Any]:
    """Describe this machine by a separate process, so that no GPU context stays.

    Raises:
        WorkloadsError: torch cannot be imported.
    """
    answer = subprocess.run([sys.executable, "-c", ASK_TORCH], capture_output=True, text=True)
    if answer.returncode:
        reason = (answer.stderr.strip().splitlines() or ["it died"])[-1]
        raise WorkloadsError(
            f"torch could not list the devices here ({reason}); run python -m workloads check"
        )
    torch_version, cuda_version, names = json.loads(answer.stdout)
    facts = fingerprint()
    memory = facts["memory_total_bytes"]
    return {
        "hostname": facts["hostname"],
        "cpu_count": facts["logical_cpus"],
        "memory_total_gb": memory / 2**30 if memory else None,
        "gpu_count": len(names),
        "gpu_names": names,
        "cuda_version": cuda_version,
        "pytorch_version": torch_version,
    }
