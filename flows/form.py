"""Types of the parameters that the forms of `bench` and `nightly` in the Prefect UI show."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field, NonNegativeFloat, PositiveInt, WithJsonSchema

from tasks.planning.hardware import hardware_names, suites

if TYPE_CHECKING:
    SuiteName: TypeAlias = str
    HardwareName: TypeAlias = str
else:  # the form offers the files of deployments/, and the server refuses any other name
    SuiteName, HardwareName = Literal[tuple(suites())], Literal[tuple(hardware_names())]


def _field(title: str) -> Any:
    """Return the label of a field, which is the parameter's name otherwise."""
    return Field(json_schema_extra={"title": title})


def _optional(kind: str, **limits: int) -> Any:
    """Return the schema of a field that may stay empty; `kind | None` would show a switch between the two."""
    return WithJsonSchema({"type": kind, **limits})


Suite = Annotated[SuiteName, _field("Suite")]
Hardware = Annotated[list[HardwareName], _field("Hardware")]
Repeats = Annotated[PositiveInt | None, _optional("integer", exclusiveMinimum=0), _field("Repeats")]
Budget = Annotated[NonNegativeFloat, _field("Budget in USD")]
Baseline = Annotated[str | None, _optional("string"), _field("Baseline")]
BreakEven = Annotated[bool, _field("Break-even")]
Boxes = Annotated[PositiveInt, _field("Copies of each rented machine")]
ClusterFile = Annotated[dict[str, Any] | None, _optional("object"), _field("Cluster")]
Results = Annotated[str | None, _optional("string"), _field("Results")]
Resume = Annotated[str | None, _optional("string"), _field("Resume a run")]
Channel = Annotated[str, _field("Channel")]
