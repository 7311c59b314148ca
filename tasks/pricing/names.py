"""Sizes of machines and regions of zones, by name."""

import re

_AWS = re.compile(r"([a-z][a-z0-9-]*)\.(\d*)(medium|large|xlarge)")
_GCP = re.compile(r"([a-z]\d[a-z]?-[a-z]+)-(\d+)g?")
_LAMBDA = re.compile(r"gpu_(\d+)x_(\w+)")
_AWS_SIZES = {"medium": 0.25, "large": 0.5, "xlarge": 1.0}


def size_of(instance: str) -> tuple[str, float] | None:
    """Return family and size, such as `p3` and 16.

    Twice the size has twice the CPUs or GPUs.
    """
    name = instance.lower()
    if match := _AWS.fullmatch(name):
        return match[1], float(match[2] or 1) * _AWS_SIZES[match[3]]
    if match := _GCP.fullmatch(name):
        return match[1], float(match[2])
    if match := _LAMBDA.fullmatch(name):
        return match[2], float(match[1])
    return None


def is_smaller(instance: str, other: str) -> bool:
    """Return whether a machine is smaller, in the same family."""
    one, another = size_of(instance), size_of(other)
    return one is not None and another is not None and one[0] == another[0] and one[1] < another[1]


def is_in(place: str, region: str) -> bool:
    """Return True also for a zone: `us-east-1b`, `us-central1-a`."""
    return bool(re.fullmatch(rf"{re.escape(region)}(-?[a-z])?", place))
