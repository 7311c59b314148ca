"""A local Prefect API, running or new."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from gridbench.run.report_server import reports_served
from infra.images.flavours import flavours
from infra.local.access import auth_file, auth_string, basic_auth
from infra.local.stack import LocalStack, LocalStackError, running_api
from tasks.errors import GridbenchError
from tasks.planning.hardware import RENTED_POOL, Hardware
from tasks.planning.limits import LOCAL_POOL, RENTAL_POOL

ROOT = Path(__file__).parents[2]
FOLDERS = ("GRIDBENCH_DEPLOYMENTS", "GRIDBENCH_WORKLOADS", "GRIDBENCH_RESULTS", "GRIDBENCH_BOX_LOCK")
STATE = Path(os.environ.get("GRIDBENCH_STATE") or ROOT / ".gridbench")
POOLS = {  # those of a local stack, with their types
    LOCAL_POOL: "process",
    RENTAL_POOL: "process",
    RENTED_POOL: "ssh",
}
KEY = "LAMBDA_API_KEY"
PRIVATE = {
    KEY: RENTAL_POOL,
    "SSH_AUTH_SOCK": RENTED_POOL,
}  # variables that only one pool's worker gets
GIVING_BACK_S = 120.0  # for cancelled runs to end if one has to return a rented box
NEEDS = {"lambda-sweep": KEY}  # environment variables without which a schedule stays paused


@dataclass(frozen=True, slots=True)
class Session:
    """An API that answers.

    Attributes:
        check: restarts stopped processes of a local stack; returns a sentence if it did.
        password_file: of a local stack.
        lasts: it continues after the command's end.
    """

    api_url: str
    ui_url: str
    check: Callable[[], str | None]
    password_file: Path | None = None
    lasts: bool = True

    @property
    def ui_text(self) -> str:
        return f"UI: {self.ui_url}" + (f" (password: see {self.password_file})" if self.password_file else "")

    @property
    def settings_text(self) -> str:
        auth = f' PREFECT_API_AUTH_STRING="$({self._read})"' if self._read else ""
        return f"export PREFECT_API_URL={self.api_url}{auth}"

    @property
    def _read(self) -> str:
        return f"cat {shlex.quote(str(self.password_file))}" if self.password_file else ""


def pools_of(hardware: Collection[Hardware]) -> tuple[str, ...]:
    named = {LOCAL_POOL, *(machine.pool for machine in hardware)}
    if any(machine.rent for machine in hardware):
        named.add(RENTAL_POOL)
    return tuple(pool for pool in POOLS if pool in named)


def pools_of_a_stack() -> tuple[str, ...]:
    """Return the work pools of `gridbench up`; the one for rentals needs a key."""
    return tuple(pool for pool in POOLS if pool != RENTAL_POOL or os.environ.get(KEY))


@contextmanager
def session(
    say: Callable[[str], None],
    results: Path,
    port: int | None = None,
    schedules: bool = False,
    pools: Collection[str] = (LOCAL_POOL,),
) -> Iterator[Session]:
    """Yield an API with this checkout's deployments; at the end, stop everything that was started for it.

    Args:
        results: folder whose reports are served.
        port: of the UI; None for a free one.
        schedules: run the scheduled deployments; otherwise they are paused.
        pools: those of `POOLS` that get a worker and their deployments.
    """
    keep_folders()
    if named := os.environ.get("PREFECT_API_URL"):
        raise GridbenchError(f"PREFECT_API_URL is {named}; unset it to start a local server")
    started = f"a Prefect server and {'a worker' if len(pools) == 1 else 'workers'}"
    say(f"Starting {started}." if running_api(STATE) is None else "Using the local stack that is up.")
    stop_s = GIVING_BACK_S if RENTAL_POOL in pools else 10.0
    kinds = {pool: POOLS[pool] for pool in pools}
    try:
        prepared = LocalStack(STATE, port, kinds, private=PRIVATE, stop_s=stop_s)
        with reports_served(results, auth_string(STATE)), prepared as stack:
            os.environ.update(stack.environment)
            if not stack.joined:
                deploy(schedules, stack.environment, *pools)
                name_images(stack.api)
            with _speaking_to(stack):
                yield Session(
                    stack.api_url, stack.ui_url, stack.check, auth_file(stack.state), lasts=stack.joined
                )
    except LocalStackError as error:
        raise GridbenchError(str(error)) from None


def keep_folders() -> None:
    for name in FOLDERS:
        if name in os.environ:
            os.environ[name] = str(Path(os.environ[name]).absolute())


def name_images(api: httpx.Client) -> None:
    """Set the server's variable for each image in GRIDBENCH_IMAGE_CPU, …_CUDA12.

    Hardware files refer to these variables, such as `gridbench_image_cuda12`.
    """
    for flavour in flavours():
        if image := os.environ.get(f"GRIDBENCH_IMAGE_{flavour.upper()}"):
            body = {"name": f"gridbench_image_{flavour}", "value": image}
            try:
                answer = api.post("/variables/", json=body)
                if answer.status_code == httpx.codes.CONFLICT:
                    answer = api.patch(f"/variables/name/{body['name']}", json=body)
                answer.raise_for_status()
            except httpx.HTTPError as error:
                raise GridbenchError(f"could not set variable {body['name']} to {image}: {error}") from None


@contextmanager
def _speaking_to(stack: LocalStack) -> Iterator[None]:
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

    auth = stack.environment["PREFECT_API_AUTH_STRING"]
    with temporary_settings(updates={PREFECT_API_URL: stack.api_url, PREFECT_API_AUTH_STRING: auth}):
        yield


def deploy(schedules: bool, settings: Mapping[str, str], *pools: str) -> None:
    """Create prefect.yaml's deployments for some pools on the server in `settings`.

    Scheduled ones are created only with `schedules` and if their environment variable is set; otherwise
    existing ones are paused.
    """
    ours = [entry for entry in deployment_entries() if entry["work_pool"]["name"] in (pools or (LOCAL_POOL,))]
    scheduled = {entry["name"] for entry in ours if "schedules" in entry}
    still = {name for name in scheduled if not (schedules and _able(name))}
    rest = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    deploy_entries([entry["name"] for entry in ours if entry["name"] not in still], rest | dict(settings))
    if scheduled:
        _pause(settings, scheduled, still)


def deployment_entries() -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    return entries


def deploy_entries(names: Sequence[str], environment: Mapping[str, str]) -> None:
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy"]
    command += [word for name in names for word in ("--name", name)]
    env = dict(environment)
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        words = " ".join((done.stderr or done.stdout).split())[-300:]
        raise GridbenchError(f"Prefect refused the deployments of prefect.yaml: {words}")


def _able(name: str) -> bool:
    return name not in NEEDS or bool(os.environ.get(NEEDS[name]))


def _pause(settings: Mapping[str, str], scheduled: Collection[str], still: Collection[str]) -> None:
    again = Retrying(  # the server answers 503 while SQLite is locked
        retry=retry_if_exception_type(httpx.HTTPError),
        stop=stop_after_delay(60),
        wait=wait_fixed(1),
        reraise=True,
    )
    url, auth = settings["PREFECT_API_URL"], basic_auth(settings["PREFECT_API_AUTH_STRING"])
    try:
        for attempt in again:
            with attempt, httpx.Client(base_url=url, auth=auth, timeout=30, trust_env=False) as api:
                wanted = {"deployments": {"name": {"any_": [*scheduled]}}}
                for found in api.post("/deployments/filter", json=wanted).raise_for_status().json():
                    verb = "pause" if found["name"] in still else "resume"
                    api.post(f"/deployments/{found['id']}/{verb}_deployment").raise_for_status()
    except httpx.HTTPError as error:
        raise GridbenchError(f"could not set the schedules of prefect.yaml: {error}") from None
