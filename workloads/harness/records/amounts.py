"""Bounds of times and amounts of work: a figure beyond them is a mistake, whoever measured it."""

SHORTEST_S, LONGEST_S = 1e-10, 1e9  # below a cycle of any clock; above 31 years
MOST_WORK = 1e30  # FLOPs, bytes or units of a step: above what all machines do in a year


def is_duration(seconds: float) -> bool:
    """True if a step can take this time (s): finite, above zero, of a human scale."""
    return SHORTEST_S <= seconds <= LONGEST_S  # NaN is neither


def is_amount(work: float | None) -> bool:
    """True if a step can do so much work: nothing, or more than nothing and less than any machine could."""
    return work is None or work == 0 or 1 / MOST_WORK < work < MOST_WORK
