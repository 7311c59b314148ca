"""Bounds of plausible times and amounts of work."""

SHORTEST_S, LONGEST_S = 1e-10, 1e9  # below a cycle of any clock; above 31 years
# Products of a 3 x 3 convolution over those by tiles of 2 x 2 results: Lavin and Gray, arXiv:1509.09308.
WINOGRAD = 36 / 16
MOST_WORK = 1e30  # FLOPs, bytes or units of a step: above what all machines do in a year


def is_duration(seconds: float) -> bool:
    return SHORTEST_S <= seconds <= LONGEST_S  # NaN is neither


def is_amount(work: float | None) -> bool:
    return work is None or work == 0 or 1 / MOST_WORK < work < MOST_WORK


def least_flops(flops: float, conv_flops: float | None, precision: str) -> float:
    """Return the FLOPs that a device needs: fp32 convolutions can take fewer."""
    conv = min(conv_flops or 0.0, flops) if precision == "fp32" else 0.0
    return flops - conv + conv / WINOGRAD
