"""The gain of each machine from a mode other than eager: from torch.compile, and from CUDA graphs."""

from dataclasses import dataclass

from tasks.findings.gains.precision import gains
from tasks.results.finding import Finding, Results
from workloads.harness.records.case import EAGER


@dataclass(frozen=True, slots=True)
class ModeGain(Finding):
    """Speedups of other modes over eager on one machine."""

    name = "mode-gain"
    title = "Gain by mode"
    order = 51
    sentences: tuple[str, ...]

    @classmethod
    def find(cls, results: Results) -> "ModeGain":
        """Compare the cells that differ only in mode."""
        return cls(tuple(gains(results.cells, "mode", EAGER)))

    def observations(self) -> tuple[str, ...]:
        """Return a sentence for each machine and mode."""
        return self.sentences
