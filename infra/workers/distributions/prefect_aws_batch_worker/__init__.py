"""A Prefect worker that runs flows as AWS Batch jobs."""

from infra.workers.batch.decorators import aws_batch
from infra.workers.batch.worker import AwsBatchWorker

__all__ = ["AwsBatchWorker", "aws_batch"]
