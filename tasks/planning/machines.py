"""A run's machines and baseline."""

from collections.abc import Sequence

from tasks.errors import GridbenchError
from tasks.planning.channel import Version
from tasks.planning.cluster import expand, multiplied
from tasks.planning.hardware import Hardware, load_hardware
from tasks.planning.request import RunRequest


def machines_of(request: RunRequest, version: Version | None = None) -> list[Hardware]:
    """Return machines with the version to measure, if any.

    Raises:
        GridbenchError: none, or one is unknown, unsupported or unavailable in this form.
    """
    cluster, boxes = request.cluster, request.boxes
    if cluster and boxes != 1:
        raise GridbenchError(f"boxes={boxes} is for rented machines; a cluster file names its boxes itself")
    found = {machine.name: machine for machine in request.found}
    names = () if cluster else dict.fromkeys(request.hardware)
    loaded = [found.get(name) or load_hardware(name) for name in names]
    machines = expand(cluster) if cluster else multiplied(loaded, boxes)
    if not machines:
        raise GridbenchError("hardware is empty; name at least one machine, such as local-cpu")
    for machine in machines:
        if machine.unsupported:
            raise GridbenchError(f"hardware {machine.name} is not supported: {machine.unsupported}")
    return [with_version(machine, version) for machine in machines] if version else machines


def with_version(machine: Hardware, version: Version) -> Hardware:
    """Set a version's image or command; a folder leaves both.

    Its partner's command replaces the reference and so its controls.

    Raises:
        GridbenchError: an image, and the machine measures in none.
    """
    if version.partner:
        machine = machine.model_copy(update={"reference": version.partner.command})
    if version.folder:
        return machine
    if version.command:
        return machine.model_copy(update={"command": version.command})
    if "image" not in machine.job_variables:
        raise GridbenchError(
            f"hardware {machine.name} has no image in job_variables: name its versions with "
            "--command-template"
        )
    variables = {**machine.job_variables, "image": version.image}
    return machine.model_copy(update={"job_variables": variables})


def baseline_of(name: str | None, machines: Sequence[Hardware]) -> str:
    """Return the machine or box `name`, or the first box of that hardware.

    The first machine is the default.

    Raises:
        GridbenchError: none fits.
    """
    names = [machine.name for machine in machines]
    if not name or name in names:
        return name or names[0]
    for machine in machines:
        if machine.shape and name in (machine.shape, machine.name.removeprefix(f"{machine.shape}.")):
            return machine.name
    raise GridbenchError(f"baseline {name!r} is not among the hardware of this run: {', '.join(names)}")
