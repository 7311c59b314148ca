"""python -m workloads: measure on a box that has nothing but torch, numpy and psutil."""

import errno
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from workloads.command.output import close
from workloads.command.parser import parser
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.streams import begin_whole

REFUSED = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EBADF,
    errno.EIO,
)  # by standard output: full, or closed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; return 0, or 1 if a verdict is not ok, or 2 for a wrong call."""
    options = parser(__doc__ or "").parse_args(arguments)
    try:
        return int(options.command(options))
    except WorkloadsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (KeyboardInterrupt, BrokenPipeError):
        return 130
    except OSError as error:
        if error.errno not in REFUSED or error.filename is not None:
            raise
        print(f"error: standard output can't be written ({error.strerror})", file=sys.stderr)
        return 1


def _end(code: int) -> NoReturn:
    os._exit(close(code))


if __name__ == "__main__":
    begin_whole()
    _end(main())
