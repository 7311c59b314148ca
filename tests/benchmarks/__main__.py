"""`make perf`: every figure is a ratio against a baseline that was taken in the same run."""

import sys

from tests.benchmarks import cells, harness, through_prefect

BENCHMARKS = {
    "medians": harness.medians,
    "monitor": harness.monitor,
    "cells": cells.main,
    "suite": through_prefect.main,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or BENCHMARKS:
        BENCHMARKS[name]()
