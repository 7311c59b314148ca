"""The card's report: each reading is a number or has its reason, and a library that kills costs no record."""

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.gpu_proof.bench import Bench
from tests.gpu_proof.measured import measure
from tests.gpu_proof.stages.verdicts import MEASURED
from tests.gpu_proof.steps import Step
from tests.gpu_proof.table import SHOWN, Row, holds, within

READ_S = (0.0, 0.05)  # a reading ten times a second must leave most of a tenth
COST = (0.0, 0.02)  # of a core: what reading ten times a second takes in both processes
FAULTS = {
    "kills": "import os\ndef nvmlInit(): os.kill(os.getpid(), 11)\n",
    "hangs": "import time\ndef nvmlInit(): time.sleep(3600)\n",
}
WORDS = {"kills": "signal 11", "hangs": "it hangs"}


def facts(bench: Bench) -> Iterator[Row]:
    step = "health facts"
    found = bench.child("health", bench.device, limit_s=120)
    values, missing, about = found["values"], found["missing"], found["about"]
    both = sorted(values.keys() & missing.keys())
    without = [name for name in found["names"] if name not in values and name not in missing]
    yield holds(
        step, f"{step}: each is a number or has its reason", not both and not without, f"{both} {without}"
    )
    yield Row(step, f"{step}: read", SHOWN, ", ".join(f"{name} {value:g}" for name, value in values.items()))
    yield Row(step, f"{step}: missing", SHOWN, ", ".join(f"{name} ({why})" for name, why in missing.items()))
    told = {name: about.get(name) for name in ("name", "uuid", "driver", "mig", "mig_slice", "mig_devices")}
    yield Row(step, f"{step}: card", SHOWN, ", ".join(f"{name} {value}" for name, value in told.items()))
    if not bench.on_gpu:
        return
    yield holds(
        step, f"{step}: NVML is in another process", not found["in_own_process"], "by /proc/self/maps"
    )
    named = (
        about.get("name") and bench.card and about["name"] in (bench.card.name, f"NVIDIA {bench.card.name}")
    )
    yield holds(step, f"{step}: NVML and CUDA name the same card", named, f"{about.get('name')}")
    cards = values.get("gpu_cards")
    count = bench.card.count if bench.card else 0
    yield holds(
        step, f"{step}: NVML shows as many cards as torch or more", (cards or 0) >= count, f"{cards} {count}"
    )
    yield within(step, f"{step}: seconds of a reading", found["read_s"], *READ_S)
    yield within(step, f"{step}: cores that readings take", found["cost"], *COST)


def faulty(fault: str, bench: Bench) -> Iterator[Row]:
    """Measure with a driver's library that fails at its start: the record has the reason."""
    step = f"health driver {fault}"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "pynvml.py").write_text(FAULTS[fault])
        measured = measure(bench, "matmul", "n=2048", environ={"PYTHONPATH": folder})
    why = (measured.record or {}).get("missing", {}).get("gpu_energy_j", "")
    kept = measured.verdict in MEASURED and (WORDS[fault] in why or not bench.on_gpu)
    yield holds(step, step, kept, f"{measured.told} {why}")


def steps(bench: Bench) -> list[Step]:
    made = [Step("health facts", 15, facts), Step("health driver kills", 15, partial(faulty, "kills"))]
    if bench.on_gpu:
        made.append(Step("health driver hangs", 60, partial(faulty, "hangs"), essential=False))
    return made
