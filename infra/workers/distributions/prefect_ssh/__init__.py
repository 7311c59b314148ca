"""A Prefect worker that runs flows in containers on machines that SSH reaches."""

from .workers.ssh.decorators import ssh
from .workers.ssh.worker import SshWorker

__all__ = ["SshWorker", "ssh"]
