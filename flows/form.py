"""Types of the parameters that the forms of `bench` and `nightly` in the Prefect UI show."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field, NonNegativeFloat, PositiveInt

from tasks.planning.hardware import hardware_names, suites

if TYPE_CHECKING:
    SuiteName: TypeAlias = str
    HardwareName: TypeAlias = str
else:  # the form offers the files of deployments/, and the server refuses any other name
    SuiteName, HardwareName = Literal[tuple(suites())], Literal[tuple(hardware_names())]


def _titled(title: str) -> Any:
    """Return the label of a field: Prefect takes the parameter's name unless the schema says otherwise."""
    return Field(json_schema_extra={"title": title})


Suite = Annotated[SuiteName, _titled("Suite")]
Hardware = Annotated[list[HardwareName], _titled("Hardware")]
Repeats = Annotated[PositiveInt | None, _titled("Repeats")]
Budget = Annotated[NonNegativeFloat, _titled("Budget in USD")]
Baseline = Annotated[str | None, _titled("Baseline")]
BreakEven = Annotated[bool, _titled("Break-even")]
Boxes = Annotated[PositiveInt, _titled("Copies of each rented machine")]
ClusterFile = Annotated[dict[str, Any] | None, _titled("Cluster")]
Results = Annotated[str | None, _titled("Results")]
Resume = Annotated[str | None, _titled("Resume a run")]
Channel = Annotated[str, _titled("Channel")]
