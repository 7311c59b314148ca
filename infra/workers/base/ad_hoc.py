"""Runs without a deployment: `await worker.submit(flow)`, or a flow bound to a work pool by a decorator.

Such a run needs

- a work pool with storage for bundles (`prefect work-pool storage configure`): the worker's machine pickles
  and uploads the flow, the container executes it;
- an image, and a worker's machine, with Prefect, the flow's imports, and `uv` or the flow's own launcher,
  such as `launcher=["python"]`;
- values for all required job variables;
- the worker's process until the bundle is uploaded and the run labelled: a run whose process ends earlier
  stays PENDING, because no other process has the flow.

Leaving `async with worker` waits for the jobs of its ad-hoc runs.
"""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from anyio.abc import TaskStatus
from prefect.client.schemas.objects import FlowRun
from prefect.context import SettingsContext, get_settings_context
from prefect.flows import Flow, InfrastructureBoundFlow, bind_flow_to_infrastructure
from prefect.workers.base import BaseWorker

from .job_configuration import JobRefused

if TYPE_CHECKING:
    from prefect.bundles import BundleLauncher

P = ParamSpec("P")
R = TypeVar("R")


class FlowBinder:
    """The decorator of a worker, which binds a flow to a work pool, like Prefect's own `@kubernetes`."""

    def __init__(self, worker_cls: type[BaseWorker[Any, Any, Any]]) -> None:
        self._worker_cls = worker_cls

    def __call__(
        self,
        work_pool: str,
        include_files: Sequence[str] | None = None,
        launcher: "BundleLauncher | None" = None,
        *,
        include_files_base_dir: Path | str | None = None,
        **job_variables: Any,
    ) -> Callable[[Flow[P, R]], InfrastructureBoundFlow[P, R]]:
        """Return the decorator for a flow.

        Args:
            work_pool: it needs storage for bundles.
            include_files: patterns of files to send with the flow, such as "data/**/*.csv".
            launcher: replaces `uv run`.
            include_files_base_dir: by default the flow's folder.
        """
        patterns = None if include_files is None else list(include_files)
        for pattern in patterns or []:
            if not isinstance(pattern, str) or not pattern.strip():
                raise ValueError(f"include_files has {pattern!r}: a pattern is a text that names files.")

        def bind(flow: Flow[P, R]) -> InfrastructureBoundFlow[P, R]:
            return bind_flow_to_infrastructure(
                flow,
                work_pool,
                self._worker_cls,
                job_variables,
                launcher,
                patterns,
                include_files_base_dir=include_files_base_dir,
            )

        return bind


class AdHocStatus(TaskStatus[FlowRun]):
    """Stores the run that the base class reports."""

    def __init__(self, status: TaskStatus[FlowRun] | None) -> None:
        self.flow_run: FlowRun | None = None
        self._status = status

    def started(self, value: FlowRun | None = None) -> None:
        self.flow_run = value
        if self._status is not None and value is not None:
            self._status.started(value)


class UnbundledSettings(SettingsContext):
    """The worker's settings, left out of a flow's bundle.

    They would replace the container's, which reaches the API differently.
    """

    def serialize(self, include_secrets: bool = True) -> dict[str, Any]:
        return {}


def unbundled_settings() -> UnbundledSettings:
    current = get_settings_context()
    return UnbundledSettings(profile=current.profile, settings=current.settings)


def portable(flow: Flow[..., Any]) -> Flow[..., Any]:
    """Leave out a bound flow's worker class, which the container can lack."""
    if not isinstance(flow, InfrastructureBoundFlow):
        return flow
    bound: InfrastructureBoundFlow[..., Any] = copy.copy(flow)
    bound.worker_cls = BaseWorker  # type: ignore[type-abstract]
    return bound


def refusal_of(error: Exception) -> JobRefused:
    if isinstance(error, JobRefused):
        return error
    return JobRefused(f"The flow could not be submitted ({type(error).__name__}: {error}).")
