"""A Prefect API to work with: the one that PREFECT_API_URL names, a stack that is up, or one of our own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gridbench.reports import reports_served
from infra.local.stack import LocalStack, LocalStackError, running_api
from tasks.errors import GridbenchError

ROOT = Path(__file__).parents[1]
FOLDERS = ("GRIDBENCH_DEPLOYMENTS", "GRIDBENCH_WORKLOADS", "GRIDBENCH_RESULTS", "GRIDBENCH_BOX_LOCK")
STATE = Path(os.environ.get("GRIDBENCH_STATE") or ROOT / ".gridbench")


@dataclass(frozen=True, slots=True)
class Session:
    """An API that answers.

    Attributes:
        ui_url: where its UI is.
        check: looks after a stack of our own; returns a sentence when it had to mend something.
    """

    api_url: str
    ui_url: str
    check: Callable[[], str | None]


@contextmanager
def session(
    say: Callable[[str], None], results: Path, port: int | None = None, schedules: bool = False
) -> Iterator[Session]:
    """An API with the deployments of this checkout; what was started for it is stopped on every way out.

    `schedules` lets the scheduled deployments run; a session for a single run keeps them still.
    """
    for name in FOLDERS:  # the worker has another working directory
        if name in os.environ:
            os.environ[name] = str(Path(os.environ[name]).absolute())
    given = os.environ.get("PREFECT_API_URL")
    if given and schedules:
        raise GridbenchError(f"PREFECT_API_URL names {given}: unset it to keep a server running here")
    if given:
        yield Session(given, given.removesuffix("/api"), lambda: None)
        return
    say(
        "starting a Prefect server and a worker"
        if running_api(STATE) is None
        else "joining the stack that is up"
    )
    try:
        with reports_served(results), LocalStack(STATE, port=port) as stack:
            os.environ.update(stack.environment)
            if not stack.joined:
                deploy(schedules, stack.environment)
            with _speaking_to(stack.api_url):
                yield Session(stack.api_url, stack.ui_url, stack.check)
    except LocalStackError as error:
        raise GridbenchError(str(error)) from None


@contextmanager
def _speaking_to(api_url: str) -> Iterator[None]:
    """Prefect has read its settings by now: change them for this process."""
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings(updates={PREFECT_API_URL: api_url}):
        yield


def deploy(schedules: bool, settings: Mapping[str, str]) -> None:
    """Create the deployments of prefect.yaml on the server that `settings` name, with none of the user's own.

    Raises:
        GridbenchError: Prefect refuses them; its last words are quoted.
    """
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy"]
    names = ["--all"] if schedules else ["--name", "quick", "--name", "full", "--name", "local"]
    rest = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    env = rest | dict(settings)
    done = subprocess.run([*command, *names], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        words = " ".join((done.stderr or done.stdout).split())[-300:]
        raise GridbenchError(f"the deployments of prefect.yaml were not accepted: {words}")
