"""A handmade run for tests of reports: three workloads, three sizes, three machines, every fault."""

import random
import statistics

from tasks.findings.compare import compare
from tasks.report.grid import Grid, grid_of
from tasks.report.info import RunInfo
from tasks.results.comparison import Comparison
from tasks.results.model import Machine
from workloads.harness.records.case import Case
from workloads.harness.records.intervals import median_interval
from workloads.harness.records.record import Check, Memory, Record, Timing, Transfer, Verdict, Work

RUN = RunInfo("2026-07-24-nightly-3f2a", "images-and-matmul", "2026-07-24T02:00:11+00:00", 20260724, "0.1.0")
BASELINE = "aws-r5.4xlarge"
MACHINES = (
    Machine(BASELINE, 1.008, "on-demand, us-east-1, 2026-07-20"),
    Machine(
        "aws-g5.8xlarge", 2.448, "on-demand, us-east-1, 2026-07-20", 1, (("fp32", 31.2e12),), 600e9,
        spot_usd_per_hour=0.9812,
    ),
    Machine("gke-l4", None, "", 1, (("fp32", 30.3e12),), 300e9),
)  # fmt: skip
HOSTILE = "the reference said <script>alert('x')</script> & \"more\""
SPEED = {BASELINE: 1.0, "aws-g5.8xlarge": 26.0, "gke-l4": 17.0}
CASES = (
    *(Case.of("matmul", {"n": n}) for n in (1000, 5000, 10000)),
    *(Case.of("image_pipeline", {"pixels": p, "batch": b}) for p, b in ((2048, 1), (4096, 1), (4096, 4))),
    *(Case.of("gcn", {"nodes": n}) for n in (2708, 20000, 100000)),
)


def work_of(case: Case) -> Work:
    size = case.params
    if case.workload == "matmul":
        return Work(1, "matmul", 2.0 * size["n"] ** 3, 12.0 * size["n"] ** 2)
    if case.workload == "image_pipeline":
        return Work(
            size["batch"], "images", 550.0 * size["pixels"] ** 2 * size["batch"], 24.0 * size["pixels"] ** 2
        )
    return Work(size["nodes"], "nodes", 46_000.0 * size["nodes"], 12_000.0 * size["nodes"])


def true_seconds(hardware: str, case: Case) -> float:
    """Return a plausible time: a launch overhead and a rate; the graph hardly gains from an accelerator."""
    launch = 3e-5 if hardware == BASELINE else 4e-4
    gain = 1.0 + (SPEED[hardware] - 1.0) * (0.02 if case.workload == "gcn" else 1.0)
    return launch + (work_of(case).flops or 0.0) / (0.8e12 * gain)


def timing(seconds: float, count: int, chance: random.Random) -> Timing:
    samples = tuple(seconds * (1 + 0.004 * abs(chance.gauss(0, 1))) for _ in range(count))
    bounds = median_interval(samples)
    middle = statistics.median(samples)
    low, high = (bounds.low, bounds.high) if bounds else (None, None)
    return Timing(samples, 1, middle, low, high, max(samples), max(samples), 1, 0, True, True, samples[:3])


def environment(hardware: str) -> dict[str, object]:
    """Return a fingerprint; hosts differ, and driver and Python on one machine."""
    cpu = hardware == BASELINE
    return {
        "torch": "2.13.0+cpu" if cpu else "2.13.0+cu130",
        "python": "3.12.4" if hardware == "gke-l4" else "3.11.7",
        "cuda": None if cpu else "13.0",
        "driver": None if cpu else {"gke-l4": "575.51"}.get(hardware, "580.65"),
        "cpu_model": "Intel Xeon Platinum 8259CL" if cpu else "AMD EPYC 7R32",
        "logical_cpus": 16 if cpu else 32,
        "memory_bytes": (48 if hardware == "gke-l4" else 128) * 2**30,
        "gpu_name": None if cpu else {"gke-l4": "NVIDIA L4"}.get(hardware, "NVIDIA A10G"),
        "packages": {"numpy": "2.3.1", "psutil": "7.0.0"},
    }


def monitor(accelerated: bool, chance: random.Random) -> dict[str, tuple[float, ...]]:
    at = tuple(0.25 * i for i in range(1, 40))
    busy = tuple(0.95 + 0.04 * chance.random() if t > 3 else 0.1 for t in at)
    columns = {
        "t_s": at,
        "cpu_percent": tuple((100 if accelerated else 1600) * share for share in busy),
        "rss_bytes": tuple(2**20 * (200 + 90 * min(t, 3)) for t in at),
    }
    if accelerated:
        columns["gpu_utilisation_share"] = busy
        columns["gpu_memory_used_bytes"] = tuple(2**30 * (6.0 if t > 3 else 0.4) for t in at)
        columns["gpu_power_w"] = tuple(300 * share for share in busy)
    return columns


def good_record(hardware: str, case: Case, repeat: int, samples: int = 40) -> Record:
    chance = random.Random(f"{hardware}{case.id}{repeat}")
    noise = 0.06 if case == CASES[7] else 0.01
    seconds = true_seconds(hardware, case) * (1 + noise * chance.gauss(0, 1))
    accelerated = hardware != BASELINE
    moved = int(work_of(case).bytes or 0)
    wall = timing(seconds * 1.02, samples, chance)
    cold = {"process_start": 0.05, "import": 2.1 + chance.random(), "context": 0.31 if accelerated else 0.0}
    cold |= {
        "build": 0.02 + seconds,
        "h2d": 0.004,
        "first_call": 0.12 + seconds * 1.5,
        "warmup": 0.4,
        "samples": sum(wall.samples_s),
    }
    return Record(
        RUN.run, hardware, case, repeat, Verdict.OK,
        order=repeat, seed=RUN.seed, started_at=f"2026-07-24T02:{repeat:02}:11+00:00",
        device="cuda" if accelerated else "cpu", threads=16, layout="contiguous",
        wall_s=sum(cold.values()) + 0.05, phases_s=cold, unattributed_s=0.05, wall=wall,
        device_time=timing(seconds, samples, chance) if accelerated else None, work=work_of(case),
        transfer=Transfer(moved, moved // 3, moved / 6e9, moved / 12e9, moved / 18e9, moved / 36e9) if accelerated
        else Transfer(),
        check=Check(2e-7, 1e-5, 4096), memory=Memory(900 * 2**20, 2**30 if accelerated else None, None, 0),
        probes={"steal_share": 0.001, "window_start_s": 4.0, "window_end_s": 9.0},
        monitor=monitor(accelerated, chance), missing={} if accelerated else {"energy": "no RAPL on this machine"},
        environment=environment(hardware), environment_id={BASELINE: "e1a4", "gke-l4": "77b0"}.get(hardware, "c90d"),
    )  # fmt: skip


def bad_record(hardware: str, case: Case, repeat: int, verdict: Verdict, reason: str) -> Record:
    return Record(
        RUN.run, hardware, case, repeat, verdict, (reason,), started_at="2026-07-24T02:09:11+00:00",
        environment=environment(hardware), environment_id="77b0", device="cuda", wall_s=1.0,
    )  # fmt: skip


def records(repeats: int = 3) -> list[Record]:
    """Return the run: two cells not ok on one machine, one with a single repeat."""
    made = []
    for case in CASES:
        for hardware in SPEED:
            if (hardware, case) == ("gke-l4", CASES[2]):
                why = "CUDA ran out of memory: 22.3 GiB of 22.5 GiB were in use; try a smaller n"
                made.append(bad_record(hardware, case, 0, Verdict.OUT_OF_MEMORY, why))
            elif (hardware, case) == ("gke-l4", CASES[5]):
                made.append(bad_record(hardware, case, 0, Verdict.WRONG, HOSTILE))
            else:
                count = 1 if (hardware, case) == ("aws-g5.8xlarge", CASES[5]) else repeats
                made += [good_record(hardware, case, repeat) for repeat in range(count)]
    return made


def comparison(made: list[Record]) -> Comparison:
    return compare(made, MACHINES, BASELINE)


def nothing_ok() -> tuple[list[Record], Comparison]:
    made = [bad_record(h, case, 0, Verdict.CRASHED, "exit status 139") for case in CASES[:2] for h in SPEED]
    return made, comparison(made)


def arranged(made: list[Record], compared: Comparison) -> tuple[list[Record], Grid]:
    return made, grid_of(made, compared)
