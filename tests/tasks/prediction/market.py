"""Real hardware files, and an H100's records scaled to each machine's true time."""

from dataclasses import replace

from tasks.planning.hardware import load_gpus, load_hardware
from tests.tasks.examples.two_cards import two_cards


def scaled(timing, factor):
    fields = {
        name: value * factor
        for name in ("median_s", "ci_low_s", "ci_high_s", "p95_s", "max_s", "mean_s")
        if (value := getattr(timing, name)) is not None
    }
    return replace(timing, samples_s=tuple(s * factor for s in timing.samples_s), **fields)


def record_on(repeat, seconds, began="2031-01-01T00:00:00+00:00"):
    source = next(r for r in two_cards() if r.case.workload == "gpt2_train" and r.hardware == "h100")
    factor = seconds * (1 + 0.001 * repeat.repeat) / source.wall.mean_s
    gpu = load_hardware(repeat.hardware).gpu
    environment = source.environment | {"gpus": [{"name": load_gpus()[gpu].called}], "gpu_count": 1}
    return replace(
        source,
        run=repeat.run,
        hardware=repeat.hardware,
        case=repeat.case,
        repeat=repeat.repeat,
        order=repeat.order,
        seed=repeat.seed,
        started_at=began,
        wall=scaled(source.wall, factor),
        device_time=scaled(source.device_time, factor),
        device_busy_s=source.device_busy_s * factor,
        environment=environment,
        energy_j=None,
        monitor={},
    )
