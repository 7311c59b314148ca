"""How a job ended, as every worker of ours says it."""

from dataclasses import dataclass

NO_EXIT_CODE = -1
KILLED = 137  # 128 + SIGKILL: an exit code


@dataclass(frozen=True)
class JobOutcome:
    """How a job ended: the name of Prefect's state, a sentence, and the container's exit code if any.

    "Exited" is an exit code of 0, "Cancelled" what somebody asked for; every other name is a crash's.
    """

    name: str
    message: str
    exit_code: int | None = None

    @property
    def status_code(self) -> int:
        """The exit code as Prefect's worker result wants it; a missing one is never 0."""
        if self.name == "Exited":
            return 0
        return self.exit_code or NO_EXIT_CODE
