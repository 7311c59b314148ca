"""`@aws_batch(work_pool=…)` runs a flow as an AWS Batch job without a deployment."""

from ..base.ad_hoc import FlowBinder
from .worker import AwsBatchWorker

aws_batch = FlowBinder(AwsBatchWorker)
