"""The decorator that runs a flow as an AWS Batch job without a deployment."""

from .workers.batch.decorators import aws_batch

__all__ = ["aws_batch"]
