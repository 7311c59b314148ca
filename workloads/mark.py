"""A step that a script marks itself, where torch shows none: a call that does nothing unless it is measured.

from workloads.mark import step
"""

import sys


def step() -> None:
    """End a step here."""
    measured = sys.modules.get("_gridbench_marks")
    if measured is not None:
        measured.step()
