"""Records in words, for a terminal."""

from collections.abc import Callable, Iterable, Sequence

from workloads.harness.records.energy import energy_of
from workloads.harness.records.parts import Profile
from workloads.harness.records.program import MetricValue, ProgramRun, ServingRun
from workloads.harness.records.record import Cache, Memory, Record, Timing
from workloads.harness.records.script import JobTime, ScriptFiles, ScriptRun

SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
NAMED = 3  # files
MEAN_APART = 1.05  # a mean that is further above the median stands first
LOOSEST, UNKNOWN = 2.0, "unknown"  # a bound that is further from the median, by this factor, says nothing
PREFIXED = ("FLOP/s", "B/s")
UNSHOWN = "; a drift over hours and neighbours of minutes are not in it"  # no single measurement sees them
JOULES = ((1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ"), (1e-9, "nJ"), (1e-12, "pJ"))
BYTE_UNITS = ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def seconds(value: float | None) -> str:
    """Format with four digits and a unit; None is a dash."""
    if value is None:
        return "–"
    scale, unit = next(((s, u) for s, u in SCALES if abs(value) >= s), SCALES[-1])
    return f"{value / scale:.4g} {unit}"


def gigabytes(count: float) -> str:
    """Format in powers of ten: `12.9 GB`."""
    scale, unit = next((pair for pair in BYTE_UNITS if count >= pair[0]), BYTE_UNITS[-1])
    return f"{count / scale:.3g} {unit}"


def joules(value: float) -> str:
    """Format with four digits: `24.51 J` or `2.001 pJ`."""
    scale, unit = next(((s, u) for s, u in JOULES if abs(value) >= s), JOULES[-1])
    return f"{value / scale:.4g} {unit}"


def duration(seconds: float) -> str:
    """Format for people: `45 s`, `23 min`, `6.5 h`."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 2 * 3600 else f"{seconds / 3600:.3g} h"


def rate_text(value: float | None, unit: str) -> str:
    """Format with four digits: `1.234 TFLOP/s`; None is a dash."""
    if value is None:
        return "–"
    unit = "B/s" if unit == "bytes/s" else unit
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.4g} {prefix}{unit}" if unit in PREFIXED else f"{value:,.0f} {unit}"
    return f"{value:.4g} {unit}"


def table(rows: Iterable[Sequence[str]]) -> str:
    rows = [list(row) for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def line(record: Record) -> list[str]:
    timing = record.device_time or record.wall
    rate = "–"
    if record.metrics:
        rate = metric_text(record.metrics[0])
    if record.work and timing and timing.total_mean_s > 0:
        rate = rate_text(record.work.units / timing.total_mean_s, f"{record.work.unit}/s")
    return [
        record.id,
        step_text(record),
        (precision(timing) or "–") if timing else "–",
        rate,
        record.verdict.value,
        "; ".join(filter(None, (*record.reasons, waiting_text(record)))),
    ]


def waiting_text(record: Record) -> str:
    if not record.waits:
        return ""
    bound = "launch-bound: " if record.launch_bound else ""
    return f"{bound}the device waits for its host for {record.waiting_share or 0.0:.0%} of a step"


def step_s(record: Record) -> float | None:
    """Return the seconds of a typical step, or the mean if slow steps raise it."""
    timing = record.device_time or record.wall
    if timing is None:
        return None
    mean_s = (record.script.mean_s if record.script else None) or timing.total_mean_s
    return mean_s if mean_s > MEAN_APART * timing.median_s else timing.median_s


def step_text(record: Record, write: Callable[[float | None], str] = seconds) -> str:
    shown_s, median_s = step_s(record), record.compute_s
    if shown_s == median_s:
        return write(median_s)
    return f"{write(shown_s)} mean, {write(median_s)} median"


def precision(timing: Timing) -> str:
    """Return the precision of the mean, of older records of the median: `±1.2%`, or `unknown`."""
    value_s, low_s, high_s = timing.median_s, timing.ci_low_s, timing.ci_high_s
    if timing.batches is not None:
        value_s, low_s, high_s = timing.total_mean_s, timing.mean_low_s, timing.mean_high_s
    if timing.sustained:
        value_s, low_s, high_s = timing.sustained.mean_s, timing.sustained.low_s, timing.sustained.high_s
    if low_s is None or high_s is None or value_s <= 0:
        return ""
    if high_s > LOOSEST * value_s or low_s < value_s / LOOSEST:
        return UNKNOWN
    return f"±{(high_s - low_s) / 2 / value_s:.1%}"


HEAD = ["cell", "time per step", "±", "throughput", "verdict", "why"]


def detail(record: Record) -> str:
    rows = [("verdict", record.verdict.value + "".join(f"\n{'':22}{reason}" for reason in record.reasons))]
    for name, timing in (("wall", record.wall), ("events", record.device_time)):
        if timing:
            rows.append((f"{name} per step", _timing(timing.median_s, timing.ci_low_s, timing.ci_high_s)))
            rows.append((f"{name} samples", f"{len(timing.samples_s)} of {timing.block} steps each"))
    rows += rare_facts(record)
    if record.script:
        rows += script_facts(record.script)
    rows.append(("end to end", seconds(record.end_to_end_s)))
    if record.work and record.work.flops and record.compute_s:
        rows.append(
            ("rate", f"{rate_text(record.work.flops / record.compute_s, 'FLOP/s')} over the whole step")
        )
    if record.check:
        against = f", against {record.check.reference}" if record.check.reference else ""
        rows.append(("relative error", f"{record.check.error:.2g} (bound {record.check.bound:.0e}{against})"))
    if record.cache:
        rows.append(("cache", cache_text(record.cache)))
    rows += [(f"phase {name}", seconds(value)) for name, value in record.phases_s.items()]
    rows += [(f"inherited {name}", seconds(value)) for name, value in record.inherited_s.items()]
    rows += [("unattributed", seconds(record.unattributed_s)), ("wall", seconds(record.wall_s))]
    if record.memory and record.memory.peak_rss_bytes:
        rows.append(("peak memory", f"{record.memory.peak_rss_bytes / 2**20:.0f} MiB"))
    if record.memory and record.memory.process_reserved_bytes:
        rows.append(("device memory", _device_memory(record.memory)))
    rows += [(name, f"{value:.4g}") for name, value in sorted(record.probes.items())]
    rows += [(name, f"null: {reason}") for name, reason in sorted(record.missing.items())]
    lines = [record.id, *(f"  {name:<19} {value}" for name, value in rows)]
    return "\n".join([*lines, "", profile_table(record.profile)] if record.profile else lines)


def rare_facts(record: Record) -> list[tuple[str, str]]:
    rows, timing = [], record.device_time or record.wall
    if timing and record.busy_share is not None:
        by_events = f"of {seconds(timing.median_s)} by events; {waiting_text(record)}"
        rest = by_events if record.waits else "in which the device never waits for its host"
        rows.append(("device time", f"{seconds(record.device_s)} {rest}"))
    if latency := record.latency:
        tails = [latency.p50_s, latency.p95_s, latency.p99_s]
        text = " / ".join(map(seconds, tails))
        rows.append(("latency", f"{text} (p50 / p95 / p99 of {latency.steps} single steps)"))
    if timing and (limited := timing.sustained):
        bounds = f"{seconds(limited.low_s)} – {seconds(limited.high_s)}"
        burst = f"; {seconds(limited.burst_s)} in its first moments" if limited.burst_s else ""
        rows.append(("at power limit", f"{seconds(limited.mean_s)} ({bounds}) sustained{burst}"))
    if text := energy_text(record):
        rows.append(("energy", text))
    if record.sustained_share is not None:
        rows.append(("sustained", f"{record.sustained_share:.1%} of its speed in the first second"))
    return rows


def energy_text(record: Record) -> str:
    energy = energy_of(record)
    if energy is None:
        return ""
    unit = record.work.unit.removesuffix("s") if record.work else ""
    texts = [f"{joules(energy.step_j)} per step"]
    texts += [f"{joules(energy.unit_j)} per {unit}"] if energy.unit_j is not None else []
    texts += [f"{energy.power_w:.4g} W"] if energy.power_w is not None else []
    error = "" if energy.error_share is None else f" (±{energy.error_share:.1%})"
    return ", ".join(texts) + error


def script_facts(script: ScriptRun) -> list[tuple[str, str]]:
    if script.program:
        return program_facts(script.program) + (file_facts(script.files) if script.files else [])
    rows = [("a step", f"{script_step(script)}; {script.steps:,} seen")] if script.steps else []
    rows += [("unknown", doubt) for doubt in script.doubts]
    if script.job:
        rows.append(("whole job", _job(script.job)))
    if script.shares:
        largest = sorted(script.shares.items(), key=lambda share: -share[1])
        rows.append(("a step goes to", ", ".join(f"{name} {part:.0%}" for name, part in largest)))
    return rows + (file_facts(script.files) if script.files else [])


def program_facts(run: ProgramRun) -> list[tuple[str, str]]:
    rows = serving_facts(run.serving) if run.serving else []
    rows += [("warm-up call", seconds(call_s)) for call_s in run.warm_ups_s]
    rows += [("call", seconds(run.call_s))] if run.call_s is not None else []
    rows += [(f"metric {metric.name}", metric_text(metric)) for metric in run.metrics]
    return rows + [("output", line) for line in run.output] + [("errors", line) for line in run.errors]


def serving_facts(run: ServingRun) -> list[tuple[str, str]]:
    rows = [("server", " ".join(run.command))]
    rows += [("server was ready after", seconds(run.ready_s))] if run.ready_s is not None else []
    return rows + [("server's output", line) for line in run.output]


def metric_text(metric: MetricValue) -> str:
    digits = f"{metric.value:,.0f}" if 1e4 <= abs(metric.value) < 1e15 else f"{metric.value:.5g}"
    name = "" if metric.name in (metric.unit, "") else metric.name
    return " ".join(filter(None, (digits, metric.unit or name)))


def file_facts(files: ScriptFiles) -> list[tuple[str, str]]:
    if files.place == "folder":
        return [("files", "it ran in its folder, and the files that it wrote stay there")]
    rows = []
    if files.written:
        names = _names(files.names, files.written)
        end = f"kept in {files.kept}" if files.kept else "gone with it; --keep FOLDER keeps them"
        rows.append(
            ("files", f"{_count(files.written, 'file')} written in a copy of its folder ({names}), {end}")
        )
    if files.linked:
        rows.append(("linked", f"{_names(files.linked)}: not copied, so read in place"))
    if files.changed:
        by = "by another program, or by the script through an absolute path"
        rows.append(
            ("changed", f"{_names(files.changed)}, in the folder itself while the script ran in a copy, {by}")
        )
    return rows


ENDS = {
    "forward": "a call of the model",
    "backward": "a backward call",
    "loader": "a batch of the loader",
    "mark": "marked by the script",
}
SOURCES = {
    "loader": " from the training loader",
    "model": " in the calls of the model",
    "declared": " as declared",
}


def script_step(script: ScriptRun) -> str:
    ends = ENDS.get(script.counted) or f"{script.step_of or ' and '.join(script.optimizers)}'s"
    others = [
        f"{count:.3g} of {name}" for name, count in script.optimizer_steps.items() if name != script.step_of
    ]
    parts = [f"{ends} with {' and '.join(others)}" if others else ends]
    if script.accumulation and script.counted != "backward":
        parts.append(f"{script.accumulation:.3g} backward call{'s' * (script.accumulation != 1)}")
    if script.samples:
        length = f" of {_count(script.tokens // script.samples, 'token')}" if script.tokens else ""
        parts.append(f"{_count(script.samples, 'sample')}{length}{SOURCES.get(script.samples_from, '')}")
    if script.epoch_steps:
        parts.append(f"{_count(script.epoch_steps, 'step')} an epoch")
    return "; ".join(parts)


def _names(names: Sequence[str], number: int | None = None) -> str:
    more = len(names) if number is None else number
    return ", ".join([*names[:NAMED], *(["…"] if more > NAMED else [])])


def _job(job: JobTime) -> str:
    length = _count(job.steps, "step") + (f" in {_count(job.epochs, 'epoch')}" if job.epochs else "")
    if job.measured:
        return f"{duration(job.seconds)}{f' for {length}' if job.steps else ''}, measured to its end"
    bounds = f"{duration(job.low_s)} – {duration(job.high_s)}"
    if job.left_out:
        return (
            f"at least {duration(job.low_s)} for {length}: {duration(job.seconds)} ({bounds}) without "
            f"{' and '.join(job.left_out)}, of which none was seen; --through N waits for N {_unit(job)}"
        )
    return f"{duration(job.seconds)} for {length}, predicted from this repeat alone ({bounds}){UNSHOWN}"


def _unit(job: JobTime) -> str:
    return "epochs" if job.epochs else "steps"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def profile_table(profile: Profile) -> str:
    by = "self CPU time" if profile.sorted_by == "self_cpu_time_total" else "self device time"
    head = f"{profile.steps} steps under the profiler took {seconds(profile.wall_s)}; operators by {by}"
    if profile.busy_s is not None:
        head += f"; {profile.kernels} kernels kept the device busy for {seconds(profile.busy_s)}"
    rows: list[Sequence[str]] = [
        ["operator", "calls", "self CPU", "CPU", "self device", "device", "self memory", "shapes"]
    ]
    for row in profile.operators:
        times = (row.self_cpu_s, row.cpu_s, row.self_device_s, row.device_s)
        memory = f"{row.self_memory_bytes / 2**20:.4g} MiB"
        rows.append(
            (row.name, str(row.calls), *(seconds(s) if s else "–" for s in times), memory, row.shapes)
        )
    return f"{head}\n{table(rows)}"


def _device_memory(memory: Memory) -> str:
    parts = ((memory.process_allocated_bytes, "in tensors"), (memory.process_reserved_bytes, "reserved"))
    text = ", ".join(f"{gigabytes(count)} {what}" for count, what in parts if count)
    return f"{text}, {gigabytes(memory.process_total_bytes)} in total" if memory.process_total_bytes else text


def _timing(median_s: float, low_s: float | None, high_s: float | None) -> str:
    bounds = f" ({seconds(low_s)} – {seconds(high_s)})" if low_s is not None else ""
    return seconds(median_s) + bounds


def cache_text(cache: Cache) -> str:
    held = f"{cache.working_set_bytes / 2**20:.3g} MiB or more"
    if cache.last_level_bytes is None:
        return f"{cache.state}: {held}, in a cache of unknown size ({cache.why})"
    return f"{cache.state}: {held}, in a cache of {cache.last_level_bytes / 2**20:.3g} MiB"
