"""The configuration of one flow run's job."""

import re
import shlex
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from prefect.client.schemas.objects import Flow, WorkPool
from prefect.workers.base import BaseJobConfiguration
from pydantic import PrivateAttr, ValidationError, model_validator

from .environment import passed_on
from .outcome import StateName
from .printable import printable
from .retry import call_until_answered

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun
    from prefect.client.schemas.responses import DeploymentResponse

# The engine runs the flow in the container's own process, `prefect flow-run execute` in a child.
# Medians of five starts each until Running: 4.9 s and 94 MiB, against 14.5 s and 184 MiB.
ENGINE = "python -m prefect.engine"
# Every job has a time limit; this maximum catches typing errors in it. Batch on Fargate has the same.
LONGEST_TIMEOUT_S = 14 * 86_400
# The engine has sent the lines of Prefect's own loggers to Prefect already.
SENT_BY_ENGINE = re.compile(r"\d\d:\d\d:\d\d\.\d{3} \| \w+ +\| (Flow|Task) run '")
# A secret could be pasted into these fields by mistake, so errors do not quote their values.
SECRET_FIELD = re.compile(r"(^|_)(key|secret|secrets|password|token|credentials|config|env|headers)(_|$)")


class JobRefused(ValueError):
    """A flow run cannot be submitted; `state` is what its run gets."""

    def __init__(self, sentence: str, state: StateName = "Crashed") -> None:
        super().__init__(printable(sentence))
        self.state = state


class TakenOver(Exception):
    """Another worker has the run now."""


class ContainerJobConfiguration(BaseJobConfiguration):
    """A job configuration with a container's environment; `JobRefused` for an invalid value."""

    _own_command: bool = PrivateAttr(default=False)

    @model_validator(mode="after")
    def _has_words_for_a_command(self) -> Self:
        try:
            shlex.split(self.command or "")
        except ValueError as error:
            reason = str(error)[0].lower() + str(error)[1:]
            raise ValueError(f"command can't be split into words as a shell does it: {reason}.") from None
        return self

    @classmethod
    async def from_template_and_values(cls, *args: Any, **kwargs: Any) -> Self:
        try:
            return await super().from_template_and_values(*args, **kwargs)
        except ValidationError as error:
            raise JobRefused(one_sentence(error)) from None

    @classmethod
    async def resolve_for_flow_run(cls, flow_run: "FlowRun", **kwargs: Any) -> Self:
        """Wait out a restart of the server."""
        resolve = super().resolve_for_flow_run

        async def attempt() -> Self:  # each on a copy, because the base class takes variables out of the run
            return await resolve(flow_run.model_copy(deep=True), **kwargs)

        return await call_until_answered(attempt)

    @property
    def own_command(self) -> bool:
        """Return True if the user chose the command, which need not run the flow."""
        return self._own_command

    @staticmethod
    def _base_flow_run_command() -> str:
        return ENGINE

    def prepare_for_flow_run(
        self,
        flow_run: "FlowRun",
        deployment: "DeploymentResponse | None" = None,
        flow: Flow | None = None,
        work_pool: WorkPool | None = None,
        worker_name: str | None = None,
        worker_id: UUID | None = None,
    ) -> None:
        """Fill in the flow run's values; drop those of the worker's machine."""
        chosen = set(self.env)
        # The command of an ad-hoc run executes the flow's bundle; Prefect has put it into the job variables.
        self._own_command = self.command is not None and flow_run.deployment_id is not None
        super().prepare_for_flow_run(flow_run, deployment, flow, work_pool, worker_name, worker_id=worker_id)
        self.env = passed_on(self.env, chosen)


def one_sentence(error: ValidationError) -> str:
    """Return pydantic's first finding as a sentence: field, value, and a valid one."""
    first = error.errors()[0]
    message = str(first["msg"]).removeprefix("Value error, ")
    if not first["loc"]:
        return message
    field = ".".join(str(part) for part in first["loc"])
    if any(SECRET_FIELD.search(str(part)) for part in first["loc"]):
        return f"{field}: {message[0].lower()}{message[1:]}."
    if first["type"] == "value_error":  # our own rule over several fields: it names them itself
        return f"{field}: {message}."
    return f"{field} is {first['input']!r}: {message[0].lower()}{message[1:]}."
