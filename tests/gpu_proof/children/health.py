"""Print the card's report by the harness's child process, and the cost of its readings."""

import json
import sys
import time

from workloads.harness.probes.asked_gpu import AskedGpu
from workloads.harness.probes.gpu import Gpu, NoGpu
from workloads.harness.probes.gpu_health import HEALTH

READINGS = 40
INTERVAL_S = 0.1


def look(gpu: Gpu) -> dict[str, object]:
    values, missing = gpu.health()
    before_s, begun, cpu_s, took = gpu.cpu_s, time.perf_counter(), time.process_time(), []
    for _ in range(READINGS):
        started = time.perf_counter()
        gpu.read()
        took.append(time.perf_counter() - started)
        time.sleep(INTERVAL_S)
    spent_s = time.process_time() - cpu_s + gpu.cpu_s - before_s
    with open("/proc/self/maps") as maps:
        in_own_process = "libnvidia-ml" in maps.read()
    return {
        "names": HEALTH,
        "values": values,
        "missing": missing,
        "about": gpu.describe(),
        "read_s": sorted(took)[len(took) // 2],
        "cost": spent_s / (time.perf_counter() - begun),
        "in_own_process": in_own_process,
    }


if __name__ == "__main__":
    card = AskedGpu() if sys.argv[1] == "cuda" else NoGpu("this is a CPU")
    print(json.dumps(look(card)))
    card.close()
