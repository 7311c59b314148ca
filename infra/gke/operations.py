"""GKE's long operations: begun once, even if an answer is lost."""

import re
import time
from collections.abc import Callable

from google.cloud import container_v1 as gke
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_fixed

from infra.gke.api import GkeLocation
from infra.gke.errors import ClusterBusy, Exists, GkeError, GkeUnreachable, Missing, failure, in_words

POLL_S = 5.0
DEADLINE_S = 2700.0  # GKE itself gives up on machines that don't come after 35 minutes
TRIES = 5
Say = Callable[[str], None]
Begin = Callable[[], gke.Operation]


class TimedOut(GkeError):
    """An operation has not ended within the deadline; GKE continues it."""


def under_way(location: GkeLocation, cluster: str) -> list[gke.Operation]:
    with in_words(f"listing the operations of {location.project}"):
        operations = location.client.list_operations(parent=location.parent).operations
    mine = re.compile(rf"/clusters/{re.escape(cluster)}(/|$)")
    return [each for each in operations if not _ended(each) and mine.search(each.target_link)]


def _ended(operation: gke.Operation) -> bool:
    return operation.status == gke.Operation.Status.DONE


def settle(location: GkeLocation, cluster: str, say: Say) -> list[GkeError]:
    errors, seen = [], set[str]()
    while waiting := [each for each in under_way(location, cluster) if each.name not in seen]:
        for operation in waiting:
            seen.add(operation.name)
            doing = words(operation)
            say(f"waiting for {doing}, which is under way")
            if error := failure(follow(location, operation, doing), doing):
                say(f"  {error}")
                errors.append(error)
    return errors


def words(operation: gke.Operation) -> str:
    """Describe an operation, such as `CREATE_NODE_POOL nvidia-l4`."""
    return f"{gke.Operation.Type(operation.operation_type).name} {operation.target_link.rpartition('/')[2]}"


def follow(location: GkeLocation, operation: gke.Operation, doing: str) -> gke.Operation:
    """Follow an operation until it succeeds or fails; raise `TimedOut` after DEADLINE_S."""
    deadline = time.monotonic() + DEADLINE_S
    while not _ended(operation):
        if time.monotonic() > deadline:
            state = gke.Operation.Status(operation.status).name
            raise TimedOut(
                f"{doing} is still {state} after {DEADLINE_S / 60:.0f} min: GKE goes on with it, "
                "`gridbench status gke` shows it, and you can run the command again"
            )
        time.sleep(POLL_S)
        try:
            with in_words(f"following {doing}"):
                operation = location.client.get_operation(
                    name=f"{location.parent}/operations/{operation.name}"
                )
        except GkeUnreachable:  # the operation continues without us
            continue
    return operation


def carry_out(location: GkeLocation, cluster: str, doing: str, call: Begin, say: Say) -> None:
    """Begin an operation on a cluster and wait for its end; the caller checks the result.

    Wait first for operations already under way. Repeat a call without an answer: GKE reports if the first one
    was carried out; then wait for its operation.
    """

    def attempt() -> gke.Operation:
        try:
            with in_words(doing):
                return call()
        except ClusterBusy:
            settle(location, cluster, say)
            raise

    again = Retrying(
        retry=retry_if_exception_type((ClusterBusy, GkeUnreachable)),
        stop=stop_after_attempt(TRIES),
        wait=wait_fixed(POLL_S),
        reraise=True,
    )
    try:
        operation = again(attempt)
    except (Exists, Missing):
        if errors := settle(location, cluster, say):
            raise errors[0] from None
        return
    if error := failure(follow(location, operation, doing), doing):
        raise error
