"""The speed of each host: Python and launches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tasks.results.finding import Finding, Results
from tasks.results.format import format_ratio
from tasks.results.sessions import WITHIN, Sessions
from tasks.results.speedup import speedup
from tasks.results.table import Column, Quantity, Table
from tasks.results.values import Estimate, Ratio, RatioVerdict
from workloads.harness.records.grade import counts
from workloads.harness.records.intervals import log_mean_interval
from workloads.harness.records.record import Record

PYTHON, LAUNCHES = "python_steps_per_s", "launches_per_s"  # readings of a record
NOTABLE = 0.05  # slower hosts by less are not named
COLUMNS = (
    Column("Machine", Quantity.MACHINE),
    Column("Million Python steps per second", Quantity.COUNT),
    Column("Against the fastest host", Quantity.RATIO),
    Column("Thousand launches per second", Quantity.COUNT),
    Column("Against the fastest", Quantity.RATIO),
    Column("Launched on"),
)
DEVICES = {"cuda": "the GPU", "cpu": "the CPU"}


@dataclass(frozen=True, slots=True)
class HostSpeed(Finding):
    """Hosts' speeds: half the speed doubles a card's wait for each operation.

    `launches` are by device: on a GPU and on a CPU they are different work.
    """

    name = "host-speed"
    title = "Speed of the hosts"
    section = "machines"
    order = 46
    python: Mapping[str, Sequence[float]]
    launches: Mapping[str, Mapping[str, Sequence[float]]]
    sessions: Sessions = WITHIN

    @classmethod
    def find(cls, results: Results) -> "HostSpeed":
        records = [record for record in results.records if counts(record)]
        names = list(dict.fromkeys(machine.name for machine in results.machines))
        launches = {
            device: _readings([record for record in records if record.device == device], names, LAUNCHES)
            for device in DEVICES
        }
        return cls(_readings(records, names, PYTHON), launches, results.sessions)

    def table(self) -> Table | None:
        rows = tuple(
            (
                name,
                _rate(self.python[name], 1e6),
                against_fastest(self.python, name, self.sessions),
                *self._launches_of(name),
            )
            for name in self.python
        )
        lead = (
            "A fixed loop of Python, and a fixed loop of tiny torch operations handed to the device, after the samples "
            "of each repeat. They bound steps in which the device waits for its host. Launches on a GPU are compared "
            "only with launches on a GPU."
        )
        return Table(COLUMNS, rows, lead) if rows else None

    def _launches_of(self, name: str) -> tuple[Estimate | None, Ratio | None, str]:
        for device, word in DEVICES.items():
            rates = self.launches[device]
            if name in rates:
                return _rate(rates[name], 1e3), against_fastest(rates, name, self.sessions), word
        return None, None, ""

    def observations(self) -> tuple[str, ...]:
        return tuple(
            f"The host of {name} runs Python at {format_ratio(ratio)} the speed of {_fastest(self.python)}'s."
            for name in self.python
            if (ratio := against_fastest(self.python, name, self.sessions)) and _is_slower(ratio)
        )


def against_fastest(
    rates: Mapping[str, Sequence[float]], name: str, sessions: Sessions = WITHIN
) -> Ratio | None:
    if name not in rates or name == (best := _fastest(rates)):
        return None
    best_s, own_s = ([1 / rate for rate in rates[side]] for side in (best, name))
    return speedup(best_s, own_s, sessions.of_cell(best, name))


def _fastest(rates: Mapping[str, Sequence[float]]) -> str:
    return max(rates, key=lambda name: sorted(rates[name])[len(rates[name]) // 2])


def _is_slower(ratio: Ratio) -> bool:
    return ratio.outcome is RatioVerdict.SLOWER and ratio.estimate.value < 1 - NOTABLE


def _readings(records: Sequence[Record], names: Sequence[str], reading: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in names}
    for record in records:
        value = record.probes.get(reading, 0.0)
        if value > 0:
            found.setdefault(record.hardware, []).append(value)
    return {name: values for name, values in found.items() if values}


def _rate(values: Sequence[float], unit: float) -> Estimate:
    scaled = [value / unit for value in values]
    interval = log_mean_interval(scaled)
    return Estimate.of(interval) if interval else Estimate(scaled[0])
