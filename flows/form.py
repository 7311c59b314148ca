"""Types of the parameters that the forms of `bench` and `nightly` in the Prefect UI show."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt, WithJsonSchema

from tasks.planning.hardware import hardware_names, suites

if TYPE_CHECKING:
    SuiteName: TypeAlias = str
    HardwareName: TypeAlias = str
else:  # the form offers the files of deployments/, and the server refuses any other name
    SuiteName, HardwareName = Literal[tuple(suites())], Literal[tuple(hardware_names())]


def _field(title: str) -> Any:
    """Return the label of a field, which is the parameter's name otherwise."""
    return Field(json_schema_extra={"title": title})


TEXT = WithJsonSchema({"type": "string"})  # `str | None` would show a switch between the two

Suite = Annotated[SuiteName, _field("Suite")]
Hardware = Annotated[list[HardwareName], _field("Hardware")]
Repeats = Annotated[
    NonNegativeInt | None, WithJsonSchema({"type": "integer", "minimum": 0}), _field("Repeats")
]
Budget = Annotated[NonNegativeFloat, _field("Budget in USD")]
Baseline = Annotated[str | None, TEXT, _field("Baseline")]
BreakEven = Annotated[bool, _field("Break-even")]
Boxes = Annotated[PositiveInt, _field("Copies of each rented machine")]
ClusterFile = Annotated[dict[str, Any] | None, _field("Cluster")]
Results = Annotated[str | None, TEXT, _field("Results")]
Resume = Annotated[str | None, TEXT, _field("Resume a run")]
Channel = Annotated[str, _field("Channel")]
