"""A Prefect worker that runs flows in containers on machines that SSH reaches."""

from infra.workers.ssh.decorators import ssh
from infra.workers.ssh.worker import SshWorker

__all__ = ["SshWorker", "ssh"]
