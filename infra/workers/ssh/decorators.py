"""The decorator that runs a flow without a deployment: it goes to a box behind SSH."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from prefect.flows import Flow, InfrastructureBoundFlow

from infra.workers.base.ad_hoc import binder
from infra.workers.ssh.worker import SshWorker

if TYPE_CHECKING:
    from prefect.bundles import BundleLauncher

P = ParamSpec("P")
R = TypeVar("R")

__all__ = ["ssh"]


def ssh(
    work_pool: str,
    include_files: Sequence[str] | None = None,
    launcher: "BundleLauncher | None" = None,
    *,
    include_files_base_dir: Path | str | None = None,
    **job_variables: Any,
) -> Callable[[Flow[P, R]], InfrastructureBoundFlow[P, R]]:
    """Bind a flow to a work pool of type `ssh`: calling it runs it in a container on a box.

    The arguments are those of Prefect's own `@kubernetes` and `@ecs`.

    Args:
        work_pool: The name of the work pool; it needs storage for bundles.
        include_files: Patterns of files that travel with the flow, such as "*.yaml" or "data/**/*.csv".
        launcher: What runs the upload and the execution of the bundle in place of `uv run`.
        include_files_base_dir: Where the patterns begin; the folder of the flow's file by default.
        **job_variables: Job variables that differ from the work pool's.

    Raises:
        ValueError: a file pattern is no text, or empty.

    Example:
        ```python
        from prefect import flow
        from infra.workers.ssh.decorators import ssh

        @ssh(work_pool="my-pool", image="registry.example/flows:1")
        @flow
        def my_flow():
            ...

        my_flow()
        ```
    """
    return binder(SshWorker, work_pool, job_variables, launcher, include_files, include_files_base_dir)
