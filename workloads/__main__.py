"""python -m workloads: measure on a box that has nothing but torch, numpy and psutil."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from workloads.command.parser import parser
from workloads.harness.records.errors import WorkloadsError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; return 0 if all is well, 1 if a verdict is not ok, 2 if the call is wrong."""
    options = parser(__doc__ or "").parse_args(arguments)
    try:
        return int(options.command(options))
    except WorkloadsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (KeyboardInterrupt, BrokenPipeError):
        return 130


def _end(code: int) -> NoReturn:
    """Exit at once: threads that a workload left running must not keep the box."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # whoever read us may be gone, as in `show … | head`
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    _end(main())
