"""`make perf`: every figure is a ratio to a baseline of the same run."""

import sys

from tests.benchmarks import (
    batch,
    calls,
    cells,
    forks,
    gate,
    harness,
    kubernetes,
    lane,
    models,
    overhead,
    report,
    ssh_lane,
    ssh_many,
    start_up,
    through_prefect,
)
from tests.benchmarks.jobs import times
from tests.benchmarks.roofline import roof
from tests.benchmarks.scripts import edited, hooks

BENCHMARKS = {
    "medians": harness.medians,
    "quick-record": harness.quick_record,
    "monitor": harness.monitor,
    "overhead": overhead.main,
    "forks": forks.main,
    "script-hooks": hooks.main,
    "models": models.main,
    "report": lambda: report.run(report.RECORDS),
    "standing": through_prefect.standing,
    "cells": cells.main,
    "calls": calls.main,
    "gate": gate.main,
    "roof": roof.main,
    "lane": lane.main,
    "suite": through_prefect.main,
    "batch": batch.main,
    "kubernetes": kubernetes.main,
    "ssh-lane": ssh_lane.main,
    "edited": edited.main,
    "ssh-many": ssh_many.main,
    "start-up": start_up.main,
}

if __name__ == "__main__":
    if sys.argv[1:2] == ["job-time"]:  # 80 minutes: only on request
        sys.exit(times.main(sys.argv[2:]))
    for name in sys.argv[1:] or BENCHMARKS:
        BENCHMARKS[name]()
