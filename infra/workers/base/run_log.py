"""The log of a flow run, in which a refusal is a sentence and not the way to it through the code."""

import sys
from typing import Any

from prefect.logging.loggers import PrefectLogAdapter

from infra.workers.base.job_configuration import JobRefused

# With which Prefect's base class begins the message of a run that it could not submit.
REFUSED = f"Failed to submit flow run to infrastructure: {JobRefused.__name__}: "


class RunLog(PrefectLogAdapter):
    """A flow run's log, as a worker writes it."""

    def exception(self, msg: object, *args: object, **kwargs: Any) -> None:
        """Log a refusal by its sentence alone, and everything else with its traceback."""
        error = sys.exc_info()[1]
        if isinstance(error, JobRefused):
            self.error("%s", error)
        else:
            super().exception(msg, *args, **kwargs)
