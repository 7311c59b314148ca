"""A replacement of `python -m workloads` on two machines that cross: time grows with n on one only."""

import os
from pathlib import Path

from stand_in import answer, asked, case_of

CROSSING = 415

stated = Path(
    os.environ["GRIDBENCH_RESULTS"], "crossing"
)  # that of a test, which changes a machine between two runs
crossing = float(stated.read_text()) if stated.is_file() else CROSSING
repeat = asked()
step_s = 1e-3 * (case_of(repeat).params["n"] / crossing if repeat.hardware == "sloping" else 1)
# repeats differ by 0.1 %, samples by less, and no two cases have the same ones
answer(
    repeat,
    tuple(step_s * (1 + 1e-3 * repeat.repeat + 1e-6 * i + 1e-9 * repeat.order) for i in range(30)),
)
