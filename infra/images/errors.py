"""Errors of images; every function of the room can raise one."""

from infra.errors import InfraError


class ImageError(InfraError):
    """An image or a frozen reference can't be made."""
