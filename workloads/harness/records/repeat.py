"""Repeats: one measurement of a cell, as it is ordered."""

import json
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any

from workloads.harness.records.case import EAGER, Case, Cell
from workloads.harness.records.errors import RecordError
from workloads.harness.records.printable import printable
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.script import Script
from workloads.harness.records.typed_json import build, finite


@dataclass(frozen=True, slots=True)
class Repeat:
    """One measurement of a cell, in a fresh process.

    A new field needs an option of `run` only if people should set it; its default must then be None or False,
    because older versions of the harness also read `options`.

    Attributes:
        threads: None for all physical cores that this process is allowed.
        quick: shorten the wait for a machine to settle.
        brief: take a few samples, however imprecise.
        timeout_s: seconds after which the process is stopped.
        data: folder with the real data sets; None draws data.
        trial: build the workload and step it once, to see that it fits.
        soak_s: seconds of steps before the samples, for sustained speed; None warms up until steady.
        cold_cache: empty the last-level cache before each sample.
        layout: as in `Record`, of an earlier repeat; None to search it.
        gpu: the hardware file's GPU model, which a lane checks; None for any.
        any_device: accept the script's own choice of a device.
        partner: the script at another version, measured next to it instead of a control.
    """

    run: str
    hardware: str
    case: Case
    repeat: int = 1
    order: int = 0
    seed: int = 0
    device: str = "cpu"
    threads: int | None = None
    quick: bool = False
    brief: bool = False
    timeout_s: float = 600.0
    profile: bool = False
    data: str | None = None
    trial: bool = False
    cold_cache: bool = False
    soak_s: float | None = None
    layout: str | None = None
    gpu: str | None = None
    any_device: bool = False
    script: Script | None = None
    session: int | None = None
    partner: Script | None = None

    @property
    def scripts(self) -> tuple[Script, ...]:
        return tuple(script for script in (self.script, self.partner) if script)

    @property
    def cell(self) -> Cell:
        return Cell(self.hardware, self.case)

    @property
    def id(self) -> str:
        return f"{self.hardware}/{self.case.id}#{self.repeat}"

    def to_json(self) -> str:
        return json.dumps(asdict(self), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Repeat":
        try:
            raw = json.loads(text, parse_float=finite, parse_constant=finite)
        except (ValueError, RecursionError) as error:
            raise RecordError(f"the repeat is not JSON ({error})") from None
        return build(cls, raw, "repeat")

    def options(self) -> list[str]:
        """Spell the repeat as command-line options, which every version of the harness reads.

        They leave out the layout, which each version finds itself, and the GPU and session, which a lane
        knows.
        """
        left_out = ("case", "layout", "gpu", "any_device", "script", "session", "partner")
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in left_out}
        mode = None if self.case.mode == EAGER else self.case.mode  # which older versions don't know
        values = {"size": self.case.size_text, "precision": self.case.precision, "mode": mode, **values}
        given = {name.replace("_", "-"): v for name, v in values.items() if v is not None and v is not False}
        words = [f"--{name}" if value is True else f"--{name}={value}" for name, value in given.items()]
        return ["run", self.case.workload, *words]

    def failed(self, verdict: Verdict, reason: str, wall_s: float = 0.0) -> Record:
        return self.record(
            verdict=verdict,
            reasons=(printable(reason),),
            threads=self.threads,
            started_at=now_text(wall_s),
            wall_s=wall_s,
            unattributed_s=wall_s,
            script=self.script.died() if self.script else None,
        )

    def record(self, **found: Any) -> Record:
        return Record(
            run=self.run,
            hardware=self.hardware,
            case=self.case,
            repeat=self.repeat,
            order=self.order,
            seed=self.seed,
            device=self.device,
            session=self.session,
            **found,
        )


def now_text(earlier_s: float = 0.0) -> str:
    """Return the time `earlier_s` seconds ago: UTC, ISO 8601 to the second."""
    return (datetime.now(UTC) - timedelta(seconds=earlier_s)).isoformat(timespec="seconds")
