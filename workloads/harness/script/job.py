"""The time of a whole job: what was seen of it as it was, the rest at the pace of its steps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from workloads.harness.records.script import JobTime
from workloads.harness.script.pace import ScriptPace


def job_time(
    pace: ScriptPace,
    ends_s: Sequence[float],
    epochs_at: Sequence[int],
    first_step_s: float,
    warm_steps: int,
    steps: int,
) -> JobTime:
    """Predict the time of a job of so many steps.

    What was seen is in it as it was, with all that is done once: the first evaluation may compile for longer
    than all later ones take. The interval is that of the same job at another time.
    """
    begun = min(pace.rounds_to, len(ends_s), steps)
    warm = min(max(warm_steps, 1), begun)
    begun_s = first_step_s + ends_s[begun - 1] - ends_s[0]
    every = pace.epoch_steps if pace.end else None
    all_ends = steps // every if every else 0
    ends, warm_ends = (
        max(all_ends - sum(place < done for place in epochs_at), 0) if every else 0 for done in (begun, warm)
    )
    seconds = begun_s + pace.total_s(steps - begun, ends)
    half = math.hypot(pace.half_s(steps - warm, warm_ends), pace.other_times * seconds)
    epochs = steps // pace.epoch_steps if pace.epoch_steps and steps % pace.epoch_steps == 0 else None
    return JobTime(steps, seconds, max(seconds - half, 0.0), seconds + half, epochs)
