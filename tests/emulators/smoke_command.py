"""The smoke scripts as commands: immediate output, exit codes, and a clean-up that Ctrl-C does not end."""

import signal
import sys
from collections.abc import Callable


def tell(sentence: str) -> None:
    print(sentence, flush=True)


def undisturbed(work: Callable[[], None]) -> None:
    """Run the clean-up to its end despite a second Ctrl-C: nothing paid must keep running."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        work()
    finally:
        signal.signal(signal.SIGINT, before)


def exit_code(run: Callable[[], int], mistakes: type[Exception]) -> int:
    """Run a script and return its exit code; a mistake is one sentence, and SIGTERM is like Ctrl-C."""
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        return run()
    except mistakes as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
