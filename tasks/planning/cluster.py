"""Boxes of one kind: a cluster file's, or copies of a rented machine."""

import ipaddress
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from tasks.errors import GridbenchError
from tasks.planning.hardware import RENTED_POOL, Hardware, load_hardware
from tasks.schema import MOST_BOXES, Strict, read_mapping, validated
from workloads.harness.records.errors import hint

SSH_PORT = 22
NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
Word = Annotated[str, Field(min_length=1, pattern=r"^[^\x00\n]+$")]


class SshHop(Strict):
    """A machine that SSH reaches; the `ssh` work pool fills in missing fields.

    Attributes:
        address: name, IP address, or a Host of the worker's ~/.ssh/config.
        key: private key's path on the worker, or `block:NAME`, a Secret block.
        host_key: public; by default the worker's known one.
    """

    address: str
    user: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$")] | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    key: Word | None = None
    host_key: Annotated[str, Field(pattern=r"^(ssh|ecdsa)-[a-z0-9-]+ [A-Za-z0-9+/=]+( [^\n]*)?$")] | None = (
        None
    )

    @model_validator(mode="after")
    def _can_be_reached(self) -> Self:
        if not HOST.fullmatch(self.address) and not _is_ip(self.address):
            raise ValueError(
                f"address is {self.address!r}: it is a name or an IP address; user and port have "
                "their own keys"
            )
        return self


class ClusterBox(SshHop):
    """One box of a cluster.

    Attributes:
        name: of lower-case letters, digits and dashes.
        key: the cluster's by default.
        jump: machines on the way, in order; as in ~/.ssh/config by default.
    """

    name: str
    jump: tuple[SshHop, ...] | None = None

    @model_validator(mode="after")
    def _can_be_named(self) -> Self:
        if not NAME.fullmatch(self.name):
            raise ValueError(f"name is {self.name!r}: it has lower-case letters, digits and dashes between")
        return self

    @property
    def endpoint(self) -> tuple[str, int, tuple[str, ...]]:
        """Return address, port and route, which no boxes share."""
        way = tuple(hop.address.lower() for hop in self.jump or ())
        return self.address.lower(), self.port or SSH_PORT, way


class Cluster(Strict):
    """A cluster file: boxes measured side by side.

    Attributes:
        hardware: the file for each box.
        key: of every box without one.
        baseline: a box; the first by default.
    """

    hardware: str
    boxes: tuple[ClusterBox, ...]
    key: Word | None = None
    baseline: str | None = None

    @model_validator(mode="after")
    def _has_boxes_that_differ(self) -> Self:
        names = [box.name for box in self.boxes]
        if len(names) < 2:
            raise ValueError(f"boxes has {len(names)}: a comparison needs 2 or more")
        for index, box in enumerate(self.boxes):
            for other in self.boxes[:index]:
                if box.name == other.name:
                    raise ValueError(f"boxes has {box.name!r} twice: each box needs its own name")
                if box.endpoint == other.endpoint:
                    where = "{}, port {}".format(*box.endpoint)
                    raise ValueError(f"boxes {other.name} and {box.name} are the same: both are at {where}")
        if self.baseline is not None and self.baseline not in names:
            raise ValueError(
                f"baseline {self.baseline!r} is not among its boxes; {hint(self.baseline, names)}"
            )
        return self


def load_cluster(path: Path) -> Cluster:
    """Read a cluster file.

    Raises:
        GridbenchError: it can't be read or has a mistake.
    """
    return validated(Cluster, read_mapping(path), f"cluster file {path.name}")


def expand(cluster: Cluster) -> list[Hardware]:
    """Return boxes at the price of the hardware file.

    Raises:
        GridbenchError: its hardware is unknown or is not reached over SSH.
    """
    try:
        shape = load_hardware(cluster.hardware)
    except GridbenchError as error:
        raise GridbenchError(f"cluster: {error}") from None
    if shape.pool != RENTED_POOL:
        raise GridbenchError(
            f"cluster: hardware {shape.name} is measured by pool {shape.pool!r}; boxes with addresses are "
            f"measured by pool {RENTED_POOL!r}"
        )
    return [_box(shape, box.name, [_host(box, cluster.key)]) for box in cluster.boxes]


def copies(hardware: Hardware, boxes: int) -> list[Hardware]:
    """Return a rented machine as boxes, or itself for one."""
    if boxes == 1:
        return [hardware]
    return [_box(hardware, str(number)) for number in range(1, boxes + 1)]


def multiplied(machines: Sequence[Hardware], boxes: int) -> list[Hardware]:
    """Copy rented machines; keep others.

    Raises:
        GridbenchError: the number is below 1, or above 1 with no rented machine.
    """
    if not 1 <= boxes <= MOST_BOXES:
        raise GridbenchError(f"boxes={boxes} must be 1 or more, and at most {MOST_BOXES}")
    if boxes > 1 and not any(machine.rent for machine in machines):
        names = ", ".join(machine.name for machine in machines)
        raise GridbenchError(
            f"boxes={boxes} is the number of copies of each rented machine, and none of {names} is rented; "
            "name boxes of your own in a cluster file"
        )
    return [box for machine in machines for box in copies(machine, boxes if machine.rent else 1)]


def _box(shape: Hardware, name: str, hosts: list[dict[str, Any]] | None = None) -> Hardware:
    """Return a box that is rented, or reached at `hosts`. Boxes share no computer, hence no `box`."""
    names = {"name": f"{shape.name}.{name}", "title": f"{shape.title}, box {name}", "shape": shape.name}
    reach = {"rent": None, "job_variables": {**shape.job_variables, "hosts": hosts}} if hosts else {}
    return shape.model_copy(update={**names, "box": None, **reach})


def _host(box: ClusterBox, key: str | None) -> dict[str, Any]:
    host = box.model_dump(exclude={"name"}, exclude_none=True, mode="json")
    return host | ({"key": box.key or key} if box.key or key else {})


def _is_ip(address: str) -> bool:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return True
