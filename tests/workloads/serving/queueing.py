"""The truth of a queue: one worker, Poisson arrivals, a known service time."""

import itertools

from workloads.serving.load import poisson


def waits_behind(service_s, rate, count, seed):
    """Return the time from each arrival to the end of its service.

    Source: D. V. Lindley, The theory of queues with a single server, 1952.
    """
    free_s, waits = 0.0, []
    for due_s in itertools.islice(poisson(rate, seed), count):
        free_s = max(free_s, due_s) + service_s
        waits.append(free_s - due_s)
    return waits
