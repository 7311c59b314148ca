"""The decorator that runs a flow on a box without a deployment."""

from .workers.ssh.decorators import ssh

__all__ = ["ssh"]
