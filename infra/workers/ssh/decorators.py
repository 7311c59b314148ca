"""`@ssh(work_pool=…)` runs a flow on a box without a deployment."""

from ..base.ad_hoc import FlowBinder
from .worker import SshWorker

ssh = FlowBinder(SshWorker)
