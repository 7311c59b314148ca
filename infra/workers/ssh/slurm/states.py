"""Slurm's report on a job: `scontrol`'s, then `sacct`'s."""

import datetime as dt
import re
from dataclasses import dataclass

# The text forms have been stable for many versions; `--json` differs between versions.
SCONTROL = re.compile(r"(?:^|\s)([A-Z][A-Za-z/_:]*)=(.*?)(?=\s[A-Z][A-Za-z/_:]*=|\s*$)")
WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD"})
ENDED = frozenset(
    {
        *("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL"),
        *("PREEMPTED", "DEADLINE", "REVOKED", "SPECIAL_EXIT", "LAUNCH_FAILED", "RECONFIG_FAIL"),
    }
)
RUNNING, CANCELLED = "RUNNING", "CANCELLED"
FORGOTTEN = "Invalid job id"
ROOT = 0


@dataclass(frozen=True)
class SlurmJob:
    """A job as Slurm sees it.

    Attributes:
        state: its name, without the flags that newer versions add.
        reason: why it waits, or why it ended; empty if Slurm gives none.
        code: exit code of the batch script.
        ended_by: user id of a cancellation; None if unknown.
        paused: it is or has been suspended.
        restarts: how often Slurm has requeued it.
        limit_s: Slurm's time limit, which an administrator can change; None if unknown.
        began, over: by the clock of the login node; None before that.
    """

    number: str
    state: str
    reason: str = ""
    code: int | None = None
    node: str = ""
    partition: str = ""
    ended_by: int | None = None
    paused: bool = False
    restarts: int = 0
    limit_s: int | None = None
    began: dt.datetime | None = None
    over: dt.datetime | None = None

    @property
    def waits(self) -> bool:
        return self.state in WAITING

    @property
    def ended(self) -> bool:
        """Return True if none of its processes runs any more."""
        return self.state in ENDED


def from_scontrol(text: str) -> SlurmJob | None:
    """Parse `scontrol show job -o`; None without such a job, ValueError for any other answer."""
    if FORGOTTEN in text:
        return None
    fields = dict(SCONTROL.findall(text.strip()))
    if "JobId" not in fields or "JobState" not in fields:
        raise ValueError(text.strip()[:200] or "nothing")
    state, _ = _state(fields["JobState"])
    paused_s = fields.get("SecsPreSuspend", "0")
    return SlurmJob(
        number=fields["JobId"],
        state=state,
        reason=_known(fields.get("Reason")),
        code=_code(fields.get("ExitCode", "")) if state in ENDED else None,
        node=_known(fields.get("NodeList")),
        partition=_known(fields.get("Partition")),
        restarts=_number(fields.get("Restarts", "")) or 0,
        paused=state == "SUSPENDED" or bool(_number(paused_s)),
        limit_s=_seconds(fields.get("TimeLimit", "")),
        # otherwise it is the expected time
        began=_time(fields.get("StartTime", "")) if state not in WAITING else None,
        over=_time(fields.get("EndTime", "")) if state in ENDED else None,
    )


def from_sacct(text: str) -> SlurmJob | None:
    """Parse `sacct -X -n -P -o JobIDRaw,State,ExitCode,NodeList,Timelimit,Start,End`; None without a job."""
    words = text.strip().split("|")
    if len(words) not in (5, 7) or not words[0].isdigit():
        return None
    state, ended_by = _state(words[1])
    began, over = (_time(word) for word in words[5:]) if words[5:] else (None, None)
    return SlurmJob(
        words[0],
        state,
        code=_code(words[2]),
        node="" if words[3] == "None assigned" else words[3],
        ended_by=ended_by,
        limit_s=_seconds(words[4]),
        began=began,
        over=over if state in ENDED else None,
    )


def _state(text: str) -> tuple[str, int | None]:
    """Parse `CANCELLED by 1000`, `CANCELLED+`, `COMPLETED,REQUEUED` to a name and a user."""
    name = re.split(r"[\s,+]", text.strip())[0]
    by = re.search(r"\bby ([0-9]{1,12})\b", text)
    return name, int(by[1]) if by else None


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,12}", text) else None


def _known(text: str | None) -> str:
    return "" if text in (None, "(null)", "None", "N/A") else text.strip()


def _seconds(text: str) -> int | None:
    """Parse `[DAYS-]HH:MM:SS`; None for a word such as `UNLIMITED`."""
    if not (found := re.fullmatch(r"(?:([0-9]{1,9})-)?([0-9]{1,9}):([0-9]{1,9}):([0-9]{1,9})", text)):
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _time(text: str) -> dt.datetime | None:
    """Parse `2026-11-25T02:15:28`, without a zone; None for a word such as `Unknown`."""
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        return None


def _code(text: str) -> int | None:
    """Parse `CODE:SIGNAL`, as shells give it after a signal."""
    if not (found := re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9})", text)):
        return None
    code, number = int(found[1]), int(found[2])
    return 128 + number if number else code
