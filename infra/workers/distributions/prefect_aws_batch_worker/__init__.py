"""A Prefect worker that runs flows as AWS Batch jobs."""

from .workers.batch.decorators import aws_batch
from .workers.batch.worker import AwsBatchWorker

__all__ = ["AwsBatchWorker", "aws_batch"]
