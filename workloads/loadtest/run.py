"""A load test as it goes: its machine, its tests, and the records that have come in."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from workloads.harness.records.case import Case
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.record import Record
from workloads.harness.registry import Task, find

KINDS: tuple[Task, ...] = ("training", "inference")


@dataclass(frozen=True, slots=True)
class System:
    """The machine, as the results show it."""

    hostname: str
    cpu_count: int | None
    memory_total_bytes: int | None
    gpu_names: tuple[str, ...]
    cuda_version: str | None
    torch_version: str


@dataclass(frozen=True, slots=True)
class LoadTest:
    """One test: a whole job through the data loader, and the step of its computation alone."""

    kind: str
    model: str
    job: Case
    alone: Case

    @classmethod
    def of(cls, job: Case) -> "LoadTest":
        """Return the test that a job is.

        Raises:
            WorkloadsError: its workload is no such job.
        """
        workload = find(job.workload)
        task, model, alone = workload.task, workload.model, workload.of
        if not (task and model and alone and {"batch", "batches"} <= job.params.keys()):
            raise WorkloadsError(
                f"{job.workload} is not a load test; a load test is a whole training or inference of a network "
                "with the sizes batch and batches"
            )
        base = find(alone)
        size = {name: value for name, value in job.size if name in base.sizes}
        return cls(task, model, job, base.case(size, job.precision))

    @property
    def batch(self) -> int:
        """Samples in a batch."""
        return self.job.params["batch"]

    @property
    def name(self) -> str:
        """Such as `train_simple_cnn_bs32` or `inference_resnet_bs8`."""
        return f"{'train' if self.kind == 'training' else self.kind}_{self.model}_bs{self.batch}"

    @property
    def iterations(self) -> int:
        """Batches that the job goes through."""
        return self.job.params.get("epochs", 1) * self.job.params["batches"]


@dataclass(slots=True)
class Run:
    """A load test: what was asked for, and the records that there are so far."""

    tests: Sequence[LoadTest]
    system: System
    epochs: int
    batches: int
    workers: int
    sample_rate_s: float
    repeats: int
    started_s: float
    records: list[Record] = field(default_factory=list)

    def found(self, case: Case, repeat: int) -> Record | None:
        """Find the record of a case, if it has come in."""
        return next((r for r in self.records if (r.case, r.repeat) == (case, repeat)), None)

    def measured(self) -> Iterator[tuple[LoadTest, Record, Record | None]]:
        """Tests that have ended, each with its job's record and that of the computation alone."""
        for repeat in range(1, self.repeats + 1):
            for test in self.tests:
                if job := self.found(test.job, repeat):
                    yield test, job, self.found(test.alone, repeat)


def successful(record: Record | None) -> bool:
    """True if a record has a time: other users of the box make it doubtful, not unsuccessful."""
    return record is not None and not record.verdict.is_failure and record.wall is not None


def failed(run: Run) -> bool:
    """True if a test, or a computation alone, has failed or is missing."""
    ended = [*run.measured()]
    return len(ended) < len(run.tests) * run.repeats or not all(
        successful(job) and successful(alone) for _, job, alone in ended
    )
