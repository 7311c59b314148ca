"""The log of a flow run."""

import sys
import time
from dataclasses import dataclass, field
from typing import Any

from prefect.logging.loggers import PrefectLogAdapter

from .job_configuration import JobRefused

# Prefect's base class begins the message of a run that it could not submit with this text.
REFUSED = f"Failed to submit flow run to infrastructure: {JobRefused.__name__}: "
REPEAT_S = 900.0  # four lines an hour while a problem lasts


class RunLog(PrefectLogAdapter):
    """A log that reports a refused job as one sentence, without a traceback."""

    def exception(self, msg: object, *args: object, **kwargs: Any) -> None:
        error = sys.exc_info()[1]
        if isinstance(error, JobRefused):
            self.error("%s", error)
        else:
            super().exception(msg, *args, **kwargs)


@dataclass(slots=True)
class RepeatLimit:
    """Limits how often the same sentence is logged: once in `repeat_s` seconds."""

    repeat_s: float = REPEAT_S
    _logged_at: dict[str, float] = field(default_factory=dict)

    def is_due(self, text: str) -> bool:
        now = time.monotonic()
        if now - self._logged_at.get(text, -self.repeat_s) < self.repeat_s:
            return False
        self._logged_at[text] = now
        return True
