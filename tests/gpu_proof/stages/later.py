"""Steps of a call by name: a rate over a minute, and the largest batch that fits."""

import sys
from collections.abc import Iterator

from tests.gpu_proof.bench import Bench
from tests.gpu_proof.steps import Step
from tests.gpu_proof.table import SHOWN, Row, holds, within

NAMES = ("soak", "largest")
LAST = 0.25  # of the seconds count as sustained
SEARCH = "largest transformer_infer --grow batch --size width=1024,length=512"


def soak(bench: Bench) -> Iterator[Row]:
    rates = bench.child("soak", bench.device, str(bench.soak_s), limit_s=bench.soak_s + 60)
    sustained = sorted(rates[-max(int(LAST * len(rates)), 1) :])
    sustained = sustained[len(sustained) // 2]
    yield Row("soak", "soak: TFLOP/s by the second", SHOWN, " ".join(f"{rate:.3g}" for rate in rates))
    told = f"burst {rates[0]:.4g}, sustained {sustained:.4g} TFLOP/s"
    if bench.on_gpu:
        yield within("soak", "soak: sustained over burst", sustained / rates[0], 0.5, 1.03, told)
    else:  # a CPU's sustained rate depends on its neighbours
        yield Row("soak", "soak: sustained", SHOWN, told)


def largest(bench: Bench) -> Iterator[Row]:
    arguments = SEARCH if bench.on_gpu else "largest mnist --grow batch --limit 2 --brief"
    ended = bench.run([sys.executable, "-m", "workloads", *arguments.split(), "--device", bench.device], 400)
    answer = (ended.out.strip().splitlines() or [ended.why])[-1]
    yield holds(
        "largest", "largest", ended.code == 0 and " fits" in answer, f"{answer} ({ended.seconds:.0f} s)"
    )


def steps(bench: Bench) -> list[Step]:
    return [Step("soak", bench.soak_s + 20, soak), Step("largest", 60 if bench.on_gpu else 5, largest)]
