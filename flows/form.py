"""Types of the parameters in the Prefect UI's forms."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field, WithJsonSchema

from tasks.planning.hardware import hardware_names, suites
from tasks.schema import MOST_BOXES, MOST_REPEATS, MOST_USD
from workloads.harness.repeat.commands import MOST_WARM_UPS
from workloads.harness.repeat.tables import LONGEST_S

if TYPE_CHECKING:
    SuiteName: TypeAlias = str
    HardwareName: TypeAlias = str
else:  # the form offers the files of deployments/, and the server refuses any other name
    SuiteName, HardwareName = Literal[tuple(suites())], Literal[tuple(hardware_names())]


def _field(title: str) -> Any:
    return Field(json_schema_extra={"title": title})


TEXT = WithJsonSchema({"type": "string"})  # `str | None` would show a switch between the two
MOST_STEPS, MOST_RANKS = 10**15, 10_000
MOST_HOURS_APART = 12.0
WHOLE = WithJsonSchema({"type": "integer", "minimum": 0, "maximum": MOST_STEPS})
COUNT = WithJsonSchema({"type": "integer", "minimum": 0, "maximum": MOST_REPEATS})
RepeatCount = Annotated[int, Field(ge=0, le=MOST_REPEATS)]
StepCount = Annotated[int, Field(ge=0, le=MOST_STEPS)]

Suite = Annotated[SuiteName, _field("Suite")]
Hardware = Annotated[list[HardwareName], _field("Hardware")]
Offers = Annotated[bool, _field("Only possible winners")]
Repeats = Annotated[RepeatCount | None, COUNT, _field("Repeats")]
Sessions = Annotated[RepeatCount | None, COUNT, _field("Sessions")]
HoursApart = Annotated[float, Field(ge=0, le=MOST_HOURS_APART), _field("Hours between sessions")]
Budget = Annotated[float, Field(ge=0, le=MOST_USD), _field("Budget in USD")]
Baseline = Annotated[str | None, TEXT, _field("Baseline")]
BreakEven = Annotated[bool, _field("Break-even")]
Boxes = Annotated[int, Field(ge=1, le=MOST_BOXES), _field("Copies of each rented machine")]
ClusterFile = Annotated[dict[str, Any] | None, _field("Cluster")]
Results = Annotated[str | None, TEXT, _field("Results")]
Resume = Annotated[str | None, TEXT, _field("Resume a run")]
Command = Annotated[str, _field("Command")]
Folder = Annotated[str, _field("Folder of the code")]
Sizes = Annotated[str | None, TEXT, _field("Sizes")]
Steps = Annotated[StepCount | None, WHOLE, _field("Steps of the whole job")]
Epochs = Annotated[StepCount | None, WHOLE, _field("Epochs of the whole job")]
Through = Annotated[StepCount | None, WHOLE, _field("Measured steps or epochs")]
StepOf = Annotated[str | None, TEXT, _field("End of a step")]
Samples = Annotated[StepCount | None, WHOLE, _field("Samples of a step")]
Packages = Annotated[str | None, TEXT, _field("Packages")]
Data = Annotated[str | None, TEXT, _field("Data")]
Image = Annotated[str | None, TEXT, _field("Container image")]
Processes = Annotated[int, Field(ge=1, le=MOST_RANKS), _field("Ranks")]
Whole = Annotated[bool, _field("To its end")]
Metrics = Annotated[list[str], _field("Metrics")]
WarmUps = Annotated[int, Field(ge=0, le=MOST_WARM_UPS), _field("Warm-up calls")]
Serve = Annotated[str, _field("Server")]
Ready = Annotated[str, _field("Address of the server when it is ready")]
Slo = Annotated[list[str], _field("Promised latencies")]
Load = Annotated[list[str], _field("Load")]
Variables = Annotated[list[str], _field("Variables")]
Timeout = Annotated[int, Field(ge=0, le=LONGEST_S), _field("Time limit of a repeat, s")]
Channel = Annotated[str, _field("Channel")]
