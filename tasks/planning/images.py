"""Images of cases, and machines with containers."""

from collections.abc import Iterable, Iterator, Sequence

from tasks.errors import GridbenchError
from tasks.planning.hardware import Hardware
from tasks.planning.plan import Plan
from workloads.harness.records.repeat import Repeat
from workloads.harness.repeat.suite_case import SuiteCase

FIELD = "image"  # the job variable of each pool that has containers


def image_of(repeat: Repeat) -> str | None:
    """Return the user's, or None for the machine's."""
    return repeat.script.image if repeat.script else None


def own_images(plan: Plan) -> tuple[str, ...]:
    scripts = (planned.script for planned in plan.cases)
    return tuple(dict.fromkeys(script.image for script in scripts if script and script.image))


def check_images(machines: Sequence[Hardware], cases: Iterable[SuiteCase]) -> None:
    """Check that machines have containers for cases with images.

    Raises:
        GridbenchError: a machine lacks them.
    """
    own = next((entry for entry in cases if entry.script and entry.script.image), None)
    without = next((machine for machine in machines if FIELD not in machine.job_variables), None)
    if own and own.script and without:
        raise GridbenchError(
            f"{own.case.workload} is measured in image {own.script.image}, and hardware {without.name} has no "
            "containers: leave it out, or choose machines of AWS Batch, Kubernetes, or boxes with container_command "
            "and image in their hardware file"
        )


def in_images(plan: Plan) -> Iterator[Hardware]:
    """Yield each machine once for each image."""
    for image in dict.fromkeys(planned.script and planned.script.image for planned in plan.cases):
        for machine in plan.hardware:
            variables = machine.job_variables | ({FIELD: image} if image else {})
            yield machine.model_copy(update={"job_variables": variables})
