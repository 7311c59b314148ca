"""The decorator that runs a flow without a deployment: it becomes an AWS Batch job."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from prefect.flows import Flow, InfrastructureBoundFlow

from infra.workers.base.ad_hoc import binder
from infra.workers.batch.worker import AwsBatchWorker

if TYPE_CHECKING:
    from prefect.bundles import BundleLauncher

P = ParamSpec("P")
R = TypeVar("R")

__all__ = ["aws_batch"]


def aws_batch(
    work_pool: str,
    include_files: Sequence[str] | None = None,
    launcher: "BundleLauncher | None" = None,
    *,
    include_files_base_dir: Path | str | None = None,
    **job_variables: Any,
) -> Callable[[Flow[P, R]], InfrastructureBoundFlow[P, R]]:
    """Bind a flow to a work pool of type `aws-batch`: calling it runs it as an AWS Batch job.

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
        from infra.workers.batch.decorators import aws_batch

        @aws_batch(work_pool="my-pool", image="registry.example/flows:1", memory_mib=4096)
        @flow
        def my_flow():
            ...

        my_flow()
        ```
    """
    return binder(AwsBatchWorker, work_pool, job_variables, launcher, include_files, include_files_base_dir)
