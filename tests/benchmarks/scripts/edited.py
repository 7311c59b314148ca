"""From an edited script to its first record on a box behind SSH, by the user's command.

The command starts its own Prefect server and worker. The box is a namespace of this machine with a real sshd:
its jobs are containers in one lane and process trees in the other.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.stack import ROOT
from tests.emulators import containers, images
from tests.emulators.boxes import boxes, has_all_packages
from tests.emulators.prefect_api import with_tables

GOAL_S = 60.0  # after the first time
SCRIPT = ROOT / "tests/workloads/harness/script/server/scripts/plain.py"
EDITS = (
    (),
    (),
    ("--steps", "10000"),
)  # words of the command after each: a predicted job is measured for longer
LONGEST_S = 400.0
MACHINE = """
title: A box behind SSH, by {name}
pool: ssh
device: cpu
threads: 1
price: {{usd_per_hour: 0, purchase: assumption, source: a benchmark, date: 2026-01-01}}
job_variables: {variables}
"""


@dataclass(frozen=True)
class First:
    """Seconds from a command to its first record and its end, and those of the record's process."""

    record_s: float
    end_s: float
    own_s: float
    verdict: str
    phases_s: dict[str, float]


def main() -> None:
    image = images.built(containers.base_image())
    with boxes(1) as (box,), tempfile.TemporaryDirectory() as name:
        has_all_packages(box)
        common = {"hosts": [box.host], "least_free_mib": 1}
        lanes = {
            "containers": {"image": image, "pull": "never"},
            "processes": {"container_command": "none", "python": sys.executable},
        }
        folder = Path(name)
        os.environ["GRIDBENCH_BOX_LOCK"] = str(folder / "lock")
        shutil.copytree(ROOT / "deployments", folder / "deployments")
        for lane, variables in lanes.items():
            text = MACHINE.format(name=lane, variables=json.dumps(common | variables))
            (folder / f"deployments/hardware/by-{lane}.yaml").write_text(text)
        for lane in lanes:
            with_tables(folder / f"state-{lane}")
            print(sentence(lane, "the first time", edited(folder, lane, 0, ())), flush=True)
            for number, words in enumerate(EDITS, 1):
                what = " ".join([f"edit {number}", *words])
                print(sentence(lane, what, edited(folder, lane, number, words)), flush=True)


def edited(folder: Path, lane: str, number: int, words: Sequence[str]) -> First:
    """Edit the script, run the command, and wait for its first record and its end."""
    code, results = folder / "code", folder / f"results-{lane}-{number}"
    code.mkdir(exist_ok=True)
    (code / "train.py").write_text(f"{SCRIPT.read_text()}\n# {lane}, edit {number}\n")
    environment = os.environ | {
        "GRIDBENCH_DEPLOYMENTS": str(folder / "deployments"),
        "GRIDBENCH_RESULTS": str(results),
        "GRIDBENCH_STATE": str(folder / f"state-{lane}"),
        "COLUMNS": "120",
    }
    environment.pop("PREFECT_API_URL", None)
    command = [str(Path(sys.executable).with_name("gridbench")), "train", "--on", f"by-{lane}"]
    command += ["--folder", str(code), "--repeats", "1", *words, "--", "train.py"]
    began_s = time.monotonic()
    with (folder / "said").open("w+") as said:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=said, stderr=said)
        found: list[Path] = []
        try:
            while not found and process.poll() is None and time.monotonic() < began_s + LONGEST_S:
                time.sleep(0.1)
                found = list(results.glob("*/records/**/*.json"))
            record_s = time.monotonic() - began_s
            assert found, said_by(folder)
            process.wait()
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)  # it takes down its server, its workers and its job
                process.wait()
        end_s = time.monotonic() - began_s
    record: dict[str, Any] = json.loads(found[0].read_text())
    return First(record_s, end_s, record["wall_s"], record["verdict"], record["phases_s"])


def said_by(folder: Path) -> str:
    return (folder / "said").read_text()


def sentence(lane: str, what: str, first: First) -> str:
    goal = "" if what == "the first time" else f" (goal {GOAL_S:g} s)"
    phases = ", ".join(f"{name} {seconds:.1f}" for name, seconds in first.phases_s.items() if seconds >= 0.5)
    return (
        f"{lane}, {what}: {first.record_s:.1f} s to the first record{goal}, {first.end_s:.1f} s to the end; "
        f"the record, {first.verdict}, took {first.own_s:.1f} s itself: {phases}"
    )
