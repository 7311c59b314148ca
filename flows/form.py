"""Types of the parameters that the forms of `bench`, `script` and `nightly` in the Prefect UI show."""

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
WHOLE = WithJsonSchema({"type": "integer", "minimum": 0})

Suite = Annotated[SuiteName, _field("Suite")]
Hardware = Annotated[list[HardwareName], _field("Hardware")]
Repeats = Annotated[NonNegativeInt | None, WHOLE, _field("Repeats")]
Budget = Annotated[NonNegativeFloat, _field("Budget in USD")]
Baseline = Annotated[str | None, TEXT, _field("Baseline")]
BreakEven = Annotated[bool, _field("Break-even")]
Boxes = Annotated[PositiveInt, _field("Copies of each rented machine")]
ClusterFile = Annotated[dict[str, Any] | None, _field("Cluster")]
Results = Annotated[str | None, TEXT, _field("Results")]
Resume = Annotated[str | None, TEXT, _field("Resume a run")]
Command = Annotated[str, _field("Command")]
Folder = Annotated[str, _field("Folder of the code")]
Sizes = Annotated[str | None, TEXT, _field("Sizes")]
Steps = Annotated[NonNegativeInt | None, WHOLE, _field("Steps of the whole job")]
Epochs = Annotated[NonNegativeInt | None, WHOLE, _field("Epochs of the whole job")]
Through = Annotated[NonNegativeInt | None, WHOLE, _field("Measured steps or epochs")]
StepOf = Annotated[str | None, TEXT, _field("End of a step")]
Samples = Annotated[NonNegativeInt | None, WHOLE, _field("Samples of a step")]
Packages = Annotated[str | None, TEXT, _field("Packages")]
Data = Annotated[str | None, TEXT, _field("Data")]
Processes = Annotated[PositiveInt, _field("Ranks")]
Whole = Annotated[bool, _field("To its end")]
Channel = Annotated[str, _field("Channel")]
