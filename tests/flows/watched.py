"""A replacement of `python -m workloads` on a machine whose seconds per step are in a file.

`pause_s` there delays the answer.
"""

import json
import time
from pathlib import Path

from stand_in import answer, asked

repeat = asked("speeds")
speeds = json.loads(Path(repeat.speeds).read_text())
time.sleep(speeds.get("pause_s", 0))
step_s = speeds[repeat.workload]
# repeats differ by up to 0.4 %, by their seed; samples by less
own = 1 + 4e-3 * (repeat.seed * 2654435761 % 2**32 / 2**32 - 0.5)
answer(
    repeat,
    tuple(step_s * own * (1 + 1e-6 * i + 1e-9 * repeat.order) for i in range(30)),
    environment={"cpu_model": "of known speed", "commit": "c" * 40},
)
