"""What a workload or a device throws becomes a verdict; a user's mistake stays an error."""

from collections.abc import Iterator
from contextlib import contextmanager

from workloads.harness.correctness import WrongError
from workloads.harness.device import UnsupportedError
from workloads.harness.errors import WorkloadsError
from workloads.harness.record import Verdict
from workloads.harness.verdict import Finding

OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "not enough memory")


@contextmanager
def findings_of_failures() -> Iterator[list[Finding]]:
    """Catch what a measurement raises and leave it as a finding in the list that is yielded."""
    found: list[Finding] = []
    try:
        yield found
    except UnsupportedError as error:
        found.append((Verdict.UNSUPPORTED, str(error)))
    except WrongError as error:
        found.append((Verdict.WRONG, str(error)))
    except WorkloadsError:
        raise
    except Exception as error:  # a workload may raise anything, and its record must still be written
        found.append(_finding(error))


def _finding(error: Exception) -> Finding:
    text = next(iter(str(error).strip().splitlines()), type(error).__name__)[:300]
    if isinstance(error, MemoryError) or any(words in text for words in OUT_OF_MEMORY):
        return Verdict.OUT_OF_MEMORY, f"memory ran out: {text}"
    return Verdict.CRASHED, f"the workload raised {type(error).__name__}: {text}"
